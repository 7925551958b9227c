// SPDX-License-Identifier: Apache-2.0
#pragma once
// A recipe: what a template is made of. Parsed from `templates/<name>.toml`, written by the operator.
//
//   name = "base"                    # [a-z0-9-], at most 63 characters; the file is named after it
//   description = "Debian with ..."
//   suite = "bookworm"
//   packages = ["python3", "git"]
//   init = "spaced"                  # or "systemd"
//   [defaults]                       # of a session made from it
//   vcpus = 1
//   memory = "512MiB"
//   disk = "8GiB"                    # also the apparent size of the root disk
//   [[files]]                        # optional: written after the packages
//   path = "/etc/motd"
//   content = "..."
//   mode = "0644"
//   [[run]]                          # optional: run in the root, in order, after the files
//   argv = ["npm", "config", "set", "fund", "false"]
//
// A key that isn't listed here is an error, so that a misspelt one can't be lost. Value types, pure, except
// load_recipe.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/size.h"

namespace space::node::tmpl {

inline constexpr std::size_t kMaxRecipeBytes = 1u << 20;
inline constexpr std::size_t kMaxPackages = 1000;
inline constexpr std::uint64_t kMinDiskBytes = 1 * kGiB;
inline constexpr std::uint64_t kMaxDiskBytes = 1024 * kGiB;
inline constexpr std::uint64_t kMinMemoryBytes = 64 * kMiB;

// Which process becomes the guest's init. The Space Daemon runs in both cases.
enum class Init : std::uint8_t { kSpaced, kSystemd };
std::string_view to_string(Init init);
// Errors: template.malformed_recipe.
Result<Init> init_from_string(std::string_view text);

struct Defaults {
  std::uint32_t vcpus = 1;
  std::uint64_t memory_bytes = 512 * kMiB;
  std::uint64_t disk_bytes = 8 * kGiB;
  bool operator==(const Defaults&) const = default;
};

struct RecipeFile {
  std::string path;  // absolute, in the root, without ".."
  std::string content;
  std::uint32_t mode = 0644;
  bool operator==(const RecipeFile&) const = default;
};

struct RunStep {
  std::vector<std::string> argv;  // never through a shell
  bool operator==(const RunStep&) const = default;
};

struct Recipe {
  std::string name;
  std::string description;
  std::string suite;
  std::vector<std::string> packages;  // as written, without what `init` adds
  Init init = Init::kSpaced;
  Defaults defaults;
  std::vector<RecipeFile> files;
  std::vector<RunStep> run;

  // packages plus those that `init` needs, sorted, each once.
  [[nodiscard]] std::vector<std::string> all_packages() const;

  // SHA-256 (hexadecimal) of everything that shapes the root disk: suite, packages, init, disk size, files,
  // steps and the version of the builder. The description and the defaults for vcpus and memory aren't part
  // of it.
  [[nodiscard]] std::string digest() const;

  bool operator==(const Recipe&) const = default;
};

// May `name` name a template? 1 to 63 characters of a-z, 0-9 and -, not starting with -.
bool is_template_name(std::string_view name);

// Errors: invalid_argument template.malformed_recipe, with the key in `field` and the line in the message.
Result<Recipe> parse_recipe(std::string_view text);

// Reads and parses `path`. The name in the recipe must be the file's name. Errors: template.recipe_not_found;
// those above.
Result<Recipe> load_recipe(const std::string& path);

}  // namespace space::node::tmpl
