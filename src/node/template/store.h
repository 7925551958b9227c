// SPDX-License-Identifier: Apache-2.0
#pragma once
// The templates of a node: built ones in several directories, recipes in several others.
//
// A template is the directory DIR/<name>/ with a valid manifest; the first directory that has the name wins.
// Names that begin with a dot are unfinished builds and locks, never templates. Reads the file system at each
// call and keeps nothing, so several processes may use the same directories. Resource type, any thread.
// Posture: operator-only.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "node/template/manifest.h"
#include "node/template/recipe.h"

namespace space::node::tmpl {

struct StoreEntry {
  enum class State : std::uint8_t {
    kReady,   // may be started from
    kRecipe,  // known, not built
    kBroken,  // a directory or a recipe that can't be used; `problem` says why
  };
  std::string name;
  State state = State::kRecipe;
  std::string dir;                   // kReady, kBroken directory: absolute
  std::string recipe_path;           // empty: only the built form is here
  std::optional<Manifest> manifest;  // kReady
  std::optional<Recipe> recipe;      // when there is a readable one
  bool outdated = false;         // kReady, and the recipe's digest is another one than the disk was made from
  std::optional<Error> problem;  // kBroken
};

class TemplateStore {
 public:
  // Directories that don't exist are treated as empty. build_dir() is the first of `template_dirs`.
  // Precondition: `template_dirs` is not empty.
  TemplateStore(std::vector<std::string> template_dirs, std::vector<std::string> recipe_dirs);
  TemplateStore(const TemplateStore&) = delete;
  TemplateStore& operator=(const TemplateStore&) = delete;

  // All templates and recipes, sorted by name, each name once.
  [[nodiscard]] Result<std::vector<StoreEntry>> list() const;

  // Errors: invalid_argument template.malformed_name; not_found template.unknown.
  [[nodiscard]] Result<StoreEntry> find(std::string_view name) const;

  // As find, and it is kReady. Errors: those, failed_precondition template.not_built, data_loss as in the
  // entry.
  [[nodiscard]] Result<StoreEntry> ready(std::string_view name) const;

  // Where a build of `name` is to be put.
  [[nodiscard]] std::string build_dir(std::string_view name) const;

  // Removes the built forms of `name` from all directories; the recipe stays. VMMs that hold its files open
  // keep them; whether a sandbox still needs the template is the caller's question. Errors: as find;
  // template.not_built; os.file.
  Result<void> remove(std::string_view name);

  // Reads the whole root disk and compares its digest with the manifest's. Blocking for seconds.
  // Errors: as ready; data_loss template.digest_mismatch.
  [[nodiscard]] Result<void> verify(std::string_view name) const;

 private:
  [[nodiscard]] StoreEntry entry_of(const std::string& name) const;

  std::vector<std::string> template_dirs_;
  std::vector<std::string> recipe_dirs_;
};

}  // namespace space::node::tmpl
