// SPDX-License-Identifier: Apache-2.0
#include "node/template/build.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include <fmt/core.h>

#include "lib/os/file.h"
#include "node/template/apt_sources.h"
#include "node/template/digest.h"
#include "node/template/disk_image.h"
#include "node/template/package_cache.h"
#include "node/template/root_tree.h"
#include "node/template/tool.h"
#include "node/template/workspace.h"

namespace space::node::tmpl {
namespace {

// A root of the larger recipe, its image and its packages, with room to spare; checked before minutes are
// spent.
constexpr std::uint64_t kNeededBytes = 3 * kGiB;
constexpr std::uint64_t kNeededToRefresh = 128 * kMiB;

Result<void> need_space(const std::string& dir, std::uint64_t bytes) {
  SPACE_TRY(const std::uint64_t left, os::free_bytes(dir));
  if (left >= bytes) return {};
  return make_error(
      Code::kResourceExhausted, "template.no_space",
      fmt::format("{} has {} MiB left, a build needs {}", dir, left / kMiB, format_size(bytes)));
}

// The built template at `dir` whose disk may be kept, if it is one.
std::optional<Manifest> reusable(const Recipe& recipe, const BuildOptions& options) {
  if (options.rebuild == Rebuild::kAlways) return std::nullopt;
  auto old = load_manifest(options.out_dir);
  if (!old.ok() || old->recipe_digest != recipe.digest()) return std::nullopt;
  return *std::move(old);
}

Result<PackageCache> open_cache(const Recipe& recipe, const BuildOptions& options, Reporter& reporter) {
  std::string sources;
  if (options.sources_file.empty()) {
    SPACE_TRY(sources, debian_sources("/etc/apt", recipe.suite));
  } else {
    SPACE_TRY(sources, os::read_file(options.sources_file));
  }
  Tool dump;
  dump.argv = {"apt-config", "dump"};
  SPACE_TRY(const std::string settings, run_tool(dump, reporter));
  return PackageCache::open(options.cache_dir, recipe.suite, sources, transport_settings(settings));
}

Result<void> copy_file(const std::string& from, const std::string& to) {
  SPACE_TRY(const std::string content, os::read_file(from, 256 * kMiB));
  return os::write_file_atomic(to, content, os::Durability::kSynced, 0644);
}

Result<void> make_disk(const Recipe& recipe, const PackageCache& cache, const Clock& clock,
                       const std::string& work, const std::string& disk, Manifest& manifest,
                       Reporter& reporter) {
  const auto started =
      std::chrono::duration_cast<std::chrono::seconds>(clock.wall().time_since_epoch()).count();
  const std::string root = work + "/root";
  SPACE_CHECK_OK(install_packages(recipe, cache, work, root, reporter));
  SPACE_CHECK_OK(apply_recipe(recipe, root, reporter));
  reporter.say("trimming the root");
  SPACE_CHECK_OK(trim(root));
  SPACE_TRY(const std::uint64_t inodes, fix_times(root, started));
  SPACE_TRY(const DiskImage image, make_disk_image(root, inodes, disk, recipe.defaults.disk_bytes, reporter));
  manifest.disk_sha256 = image.sha256;
  manifest.disk_bytes = image.bytes;
  manifest.stored_bytes = image.stored_bytes;
  manifest.built =
      std::chrono::floor<std::chrono::milliseconds>(clock.wall());  // what RFC 3339 text keeps of it
  return {};
}

Result<void> make_boot_files(const Kernel& kernel, const BuildOptions& options, const std::string& work,
                             const std::string& dir, Manifest& manifest, Reporter& reporter) {
  reporter.say(fmt::format("making the initramfs (kernel {})", kernel.version));
  SPACE_CHECK_OK(copy_file(kernel.image, dir + "/" + kKernelFile));
  Tool tool;
  tool.argv = {options.mkinitramfs,       "--spaced",     options.spaced,
               "--kernel-modules",        kernel.modules, "--out",
               dir + "/" + kInitramfsFile};
  tool.environment = {fmt::format("SOURCE_DATE_EPOCH={}", kFixedTime)};
  tool.directory = work;
  SPACE_CHECK_OK(run_tool(tool, reporter));
  SPACE_TRY(manifest.initramfs_sha256, sha256_file(dir + "/" + kInitramfsFile));
  manifest.kernel_version = kernel.version;
  return {};
}

}  // namespace

Result<Manifest> build(const Recipe& recipe, const BuildOptions& given, const Clock& clock,
                       const ProgressFn& progress) {
  Reporter reporter(progress);
  BuildOptions options = given;
  for (std::string* path : {&options.out_dir, &options.cache_dir, &options.spaced, &options.mkinitramfs}) {
    SPACE_TRY(*path, absolute(*path));
  }
  for (const std::string& program : {options.spaced, options.mkinitramfs}) {
    if (!os::exists(program)) {
      return make_error(Code::kFailedPrecondition, "template.tool_missing", "there is no " + program);
    }
  }
  if (::geteuid() != 0)
    return make_error(Code::kFailedPrecondition, "template.not_root", "building a template needs root");
  const std::string parent = parent_of(options.out_dir);
  SPACE_CHECK_OK(os::make_directories(parent, 0755));
  SPACE_CHECK_OK(os::make_directories(options.cache_dir, 0755));
  SPACE_TRY(const os::Fd template_lock,
            lock_file(fmt::format("{}/.{}.lock", parent, leaf_of(options.out_dir)), reporter,
                      "waiting for another build of this template"));
  SPACE_TRY(const os::Fd cache_lock, lock_file(options.cache_dir + "/lock", reporter,
                                               "waiting for another build that uses the package cache"));

  const std::optional<Manifest> old = reusable(recipe, options);
  SPACE_CHECK_OK(need_space(parent, old ? kNeededToRefresh : kNeededBytes));
  SPACE_TRY(const BuildDirectory work, BuildDirectory::make(options.out_dir));
  const std::string dir = work.path() + "/template";
  SPACE_CHECK_OK(os::make_directory(dir, 0755));
  SPACE_TRY(const PackageCache cache, open_cache(recipe, options, reporter));

  Manifest manifest = old.value_or(Manifest{});
  manifest.name = recipe.name;
  manifest.description = recipe.description;
  manifest.suite = recipe.suite;
  manifest.init = recipe.init;
  manifest.defaults = recipe.defaults;
  manifest.recipe_digest = recipe.digest();
  const std::string disk = dir + "/" + kDiskFile;
  if (old) {
    reporter.say("the root disk is up to date");
    if (::link((options.out_dir + "/" + kDiskFile).c_str(), disk.c_str()) != 0) {
      return errno_error(errno, "os.file", "cannot link " + disk);
    }
  } else {
    SPACE_CHECK_OK(make_disk(recipe, cache, clock, work.path(), disk, manifest, reporter));
  }
  SPACE_TRY(const Kernel kernel,
            fetch_kernel(cache, old ? KernelChoice::kCached : KernelChoice::kNewest, reporter));
  SPACE_CHECK_OK(make_boot_files(kernel, options, work.path(), dir, manifest, reporter));
  SPACE_CHECK_OK(
      os::write_file_atomic(dir + "/" + kManifestFile, to_json(manifest), os::Durability::kSynced, 0644));
  SPACE_CHECK_OK(publish_directory(dir, options.out_dir));
  reporter.say(
      fmt::format("template {} is ready ({} MiB stored)", manifest.name, manifest.stored_bytes / kMiB));
  return manifest;
}

}  // namespace space::node::tmpl
