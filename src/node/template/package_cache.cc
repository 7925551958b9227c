// SPDX-License-Identifier: Apache-2.0
#include "node/template/package_cache.h"

#include <unistd.h>

#include <sstream>

#include <fmt/core.h>

#include "lib/os/file.h"
#include "node/template/workspace.h"

namespace space::node::tmpl {
namespace {

constexpr std::string_view kModules = "lib/modules";

Result<std::string> apt(const PackageCache& cache, std::vector<std::string> command,
                        const std::string& directory, Reporter& reporter) {
  Tool tool;
  tool.argv = {command.at(0)};
  const auto options = cache.apt_options();
  tool.argv.insert(tool.argv.end(), options.begin(), options.end());
  tool.argv.insert(tool.argv.end(), command.begin() + 1, command.end());
  tool.directory = directory;
  return run_tool(tool, reporter);
}

// The value of the first "  Name: value" line of `text`.
std::string field_of(std::string_view text, std::string_view name, std::string_view value_prefix) {
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) {
    const std::size_t begin = line.find_first_not_of(" |");
    if (begin == std::string::npos) continue;
    const std::string want = fmt::format("{}: ", name);
    if (line.compare(begin, want.size(), want) != 0) continue;
    std::string value = line.substr(begin + want.size());
    if (value.starts_with(value_prefix)) return value;
  }
  return {};
}

// An unpacked kernel package, or not_found.
Result<Kernel> unpacked(const std::string& dir) {
  const std::string base = fmt::format("{}/{}", dir, kModules);
  if (!os::exists(base)) return make_error(Code::kNotFound, "template.no_kernel", "no kernel in " + dir);
  SPACE_TRY(const auto versions, os::list_directory(base));
  if (versions.size() != 1)
    return make_error(Code::kDataLoss, "template.no_kernel", "not one kernel in " + dir);
  Kernel kernel{versions[0], fmt::format("{}/boot/vmlinuz-{}", dir, versions[0]),
                fmt::format("{}/{}", base, versions[0])};
  if (!os::exists(kernel.image))
    return make_error(Code::kDataLoss, "template.no_kernel", "no boot image in " + dir);
  return kernel;
}

Result<Kernel> newest_cached(const PackageCache& cache) {
  SPACE_TRY(const std::string name, os::read_file(cache.kernels + "/current", 4096));
  if (name.empty() || name.find('/') != std::string::npos || name[0] == '.') {
    return make_error(Code::kDataLoss, "template.no_kernel", "the kernel cache is damaged");
  }
  return unpacked(cache.kernels + "/" + name);
}

Result<Kernel> download(const PackageCache& cache, const std::string& package, const std::string& entry,
                        Reporter& reporter) {
  const std::string final_dir = cache.kernels + "/" + entry;
  const std::string work = cache.kernels + "/.new";
  SPACE_CHECK_OK(os::remove_tree(work));
  SPACE_CHECK_OK(os::make_directory(work, 0755));
  reporter.say("downloading " + package);
  SPACE_CHECK_OK(apt(cache, {"apt-get", "download", package}, work, reporter));
  SPACE_TRY(const auto files, os::list_directory(work));
  if (files.size() != 1)
    return make_error(Code::kInternal, "template.tool_failed", "apt-get download left no package");
  Tool unpack;
  unpack.argv = {"dpkg-deb", "--extract", fmt::format("{}/{}", work, files[0]), work};
  SPACE_CHECK_OK(run_tool(unpack, reporter));
  SPACE_CHECK_OK(os::remove_tree(work + "/" + files[0]));
  SPACE_CHECK_OK(unpacked(work));
  SPACE_CHECK_OK(publish_directory(work, final_dir));
  return unpacked(final_dir);
}

}  // namespace

Result<PackageCache> PackageCache::open(const std::string& cache_dir, std::string_view suite,
                                        std::string_view sources_text, std::string_view settings_text) {
  const std::string base = fmt::format("{}/apt/{}", cache_dir, suite);
  PackageCache cache{base + "/archives", base + "/lists", cache_dir + "/kernel/" + std::string(suite),
                     base + "/space.sources", base + "/settings.conf"};
  for (const auto& dir : {cache.archives + "/partial", cache.lists + "/partial", cache.kernels}) {
    SPACE_CHECK_OK(os::make_directories(dir, 0755));
  }
  SPACE_CHECK_OK(os::write_file_atomic(cache.sources, sources_text, os::Durability::kBuffered, 0644));
  SPACE_CHECK_OK(os::write_file_atomic(cache.settings, settings_text, os::Durability::kBuffered, 0644));
  return cache;
}

std::vector<std::string> PackageCache::apt_options() const {
  std::vector<std::string> out;
  for (const auto& option :
       {"Dir::State::lists=" + lists, std::string("Dir::State::status=/dev/null"),
        "Dir::Cache::archives=" + archives, std::string("Dir::Cache::pkgcache="),
        std::string("Dir::Cache::srcpkgcache="), "Dir::Etc::sourcelist=" + sources,
        std::string("Dir::Etc::sourceparts=/dev/null"), std::string("Acquire::Languages=none")}) {
    out.emplace_back("-o");
    out.push_back(option);
  }
  return out;
}

Result<Kernel> fetch_kernel(const PackageCache& cache, KernelChoice choice, Reporter& reporter) {
  if (choice == KernelChoice::kCached) {
    auto cached = newest_cached(cache);
    if (cached.ok()) return cached;
  }
  Tool architecture;
  architecture.argv = {"dpkg", "--print-architecture"};
  SPACE_TRY(std::string arch, run_tool(architecture, reporter));
  while (!arch.empty() && arch.back() == '\n') arch.pop_back();
  const std::string meta = "linux-image-cloud-" + arch;
  reporter.say("looking for the newest " + meta);
  SPACE_CHECK_OK(apt(cache, {"apt-get", "update"}, "/", reporter));
  SPACE_TRY(const std::string depends,
            apt(cache, {"apt-cache", "depends", "--important", meta}, "/", reporter));
  const std::string package = field_of(depends, "Depends", "linux-image-");
  if (package.empty()) {
    return field_error("suite", "template.package_not_found", meta + " is not in the archive of this suite");
  }
  SPACE_TRY(const std::string shown,
            apt(cache, {"apt-cache", "show", "--no-all-versions", package}, "/", reporter));
  const std::string version = field_of(shown, "Version", "");
  std::string entry = fmt::format("{}_{}", package, version);
  for (char& c : entry) {
    if (c == '/' || c == ':') c = '_';
  }
  auto kernel = unpacked(cache.kernels + "/" + entry);
  if (!kernel.ok()) kernel = download(cache, package, entry, reporter);
  if (!kernel.ok()) return kernel;
  SPACE_CHECK_OK(os::write_file_atomic(cache.kernels + "/current", entry, os::Durability::kSynced, 0644));
  return kernel;
}

}  // namespace space::node::tmpl
