// SPDX-License-Identifier: Apache-2.0
#include "node/template/store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <set>

#include <fmt/core.h>

#include "lib/base/bytes.h"
#include "lib/base/check.h"
#include "lib/os/file.h"
#include "node/template/digest.h"

namespace space::node::tmpl {
namespace {

constexpr std::string_view kRecipeSuffix = ".toml";

Result<std::vector<std::string>> names_in(const std::string& dir) {
  if (!os::exists(dir)) return std::vector<std::string>();
  return os::list_directory(dir);
}

bool is_directory(const std::string& path) {
  struct stat st{};
  return ::lstat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

Error malformed_name() {
  return field_error("template", "template.malformed_name",
                     "a template's name is 1 to 63 characters of a-z, 0-9 and -, not starting with -");
}

}  // namespace

TemplateStore::TemplateStore(std::vector<std::string> template_dirs, std::vector<std::string> recipe_dirs)
    : template_dirs_(std::move(template_dirs)), recipe_dirs_(std::move(recipe_dirs)) {
  SPACE_CHECK(!template_dirs_.empty());
}

StoreEntry TemplateStore::entry_of(const std::string& name) const {
  StoreEntry entry;
  entry.name = name;
  for (const auto& dir : recipe_dirs_) {
    const std::string path = fmt::format("{}/{}{}", dir, name, kRecipeSuffix);
    if (!os::exists(path)) continue;
    entry.recipe_path = path;
    auto recipe = load_recipe(path);
    if (recipe.ok()) {
      entry.recipe = *std::move(recipe);
    } else {
      entry.problem = std::move(recipe).error();
      entry.state = StoreEntry::State::kBroken;
    }
    break;
  }
  for (const auto& dir : template_dirs_) {
    const std::string path = fmt::format("{}/{}", dir, name);
    if (!is_directory(path)) continue;
    entry.dir = path;
    auto manifest = load_manifest(path);
    if (manifest.ok() && manifest->name != name) {
      manifest = make_error(Code::kDataLoss, "template.malformed_manifest",
                            fmt::format("{} holds the template \"{}\"", path, escape(manifest->name)));
    }
    if (manifest.ok()) {
      entry.state = StoreEntry::State::kReady;
      entry.problem.reset();
      entry.outdated = entry.recipe && entry.recipe->digest() != manifest->recipe_digest;
      entry.manifest = *std::move(manifest);
    } else {
      entry.state = StoreEntry::State::kBroken;
      entry.problem = std::move(manifest).error();
    }
    break;
  }
  return entry;
}

Result<std::vector<StoreEntry>> TemplateStore::list() const {
  std::set<std::string> names;
  for (const auto& dir : template_dirs_) {
    SPACE_TRY(const auto found, names_in(dir));
    for (const auto& name : found) {
      if (is_template_name(name) && is_directory(dir + "/" + name)) names.insert(name);
    }
  }
  for (const auto& dir : recipe_dirs_) {
    SPACE_TRY(const auto found, names_in(dir));
    for (const auto& file : found) {
      if (!file.ends_with(kRecipeSuffix)) continue;
      const std::string name = file.substr(0, file.size() - kRecipeSuffix.size());
      if (is_template_name(name)) names.insert(name);
    }
  }
  std::vector<StoreEntry> out;
  out.reserve(names.size());
  for (const auto& name : names) out.push_back(entry_of(name));
  return out;
}

Result<StoreEntry> TemplateStore::find(std::string_view name) const {
  if (!is_template_name(name)) return malformed_name();
  StoreEntry entry = entry_of(std::string(name));
  if (entry.dir.empty() && entry.recipe_path.empty()) {
    return make_error(
        Code::kNotFound, "template.unknown",
        fmt::format("there is no template \"{}\" (space template ls shows those there are)", name));
  }
  return entry;
}

Result<StoreEntry> TemplateStore::ready(std::string_view name) const {
  SPACE_TRY(StoreEntry entry, find(name));
  if (entry.state == StoreEntry::State::kBroken) return *entry.problem;
  if (entry.state == StoreEntry::State::kRecipe) {
    return make_error(Code::kFailedPrecondition, "template.not_built",
                      fmt::format("template \"{0}\" is not built yet; run: space template build {0}", name));
  }
  return entry;
}

std::string TemplateStore::build_dir(std::string_view name) const {
  return fmt::format("{}/{}", template_dirs_.front(), name);
}

Result<void> TemplateStore::remove(std::string_view name) {
  SPACE_TRY(const StoreEntry entry, find(name));
  if (entry.dir.empty()) {
    return make_error(Code::kNotFound, "template.not_built",
                      fmt::format("template \"{}\" is not built", name));
  }
  for (const auto& dir : template_dirs_) {
    const std::string path = fmt::format("{}/{}", dir, name);
    if (!is_directory(path)) continue;
    // Renamed first: nobody sees half a template. The name is one that a build of it clears away.
    const std::string gone = fmt::format("{}/.building-{}-remove", dir, name);
    SPACE_CHECK_OK(os::remove_tree(gone));
    if (::rename(path.c_str(), gone.c_str()) != 0)
      return errno_error(errno, "os.file", "cannot remove " + path);
    SPACE_CHECK_OK(os::remove_tree(gone));
  }
  return {};
}

Result<void> TemplateStore::verify(std::string_view name) const {
  SPACE_TRY(const StoreEntry entry, ready(name));
  SPACE_TRY(const std::string digest, sha256_file(entry.dir + "/" + kDiskFile));
  if (digest == entry.manifest->disk_sha256) return {};
  return make_error(
      Code::kDataLoss, "template.digest_mismatch",
      fmt::format("the root disk of template \"{}\" was changed after it was built; build it again", name));
}

}  // namespace space::node::tmpl
