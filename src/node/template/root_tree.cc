// SPDX-License-Identifier: Apache-2.0
#include "node/template/root_tree.h"

#include <fcntl.h>
#include <fts.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <set>
#include <sstream>

#include <fmt/core.h>

#include "lib/base/bytes.h"
#include "lib/os/file.h"
#include "node/template/workspace.h"

namespace space::node::tmpl {
namespace {

// What dpkg leaves out, at the build and later in the guest. Copyright files stay: the licences ask for them.
constexpr const char* kTrimOptions =
    "path-exclude=/usr/share/doc/*\n"
    "path-include=/usr/share/doc/*/copyright\n"
    "path-exclude=/usr/share/man/*\n"
    "path-exclude=/usr/share/info/*\n"
    "path-exclude=/usr/share/groff/*\n"
    "path-exclude=/usr/share/lintian/*\n"
    "path-exclude=/usr/share/linda/*\n"
    "path-exclude=/usr/share/locale/*\n"
    "path-include=/usr/share/locale/locale.alias\n";

constexpr const char* kHosts = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";

// Files to remove; directories to empty.
constexpr std::array kRemoved{"/etc/hostname",
                              "/etc/resolv.conf",
                              "/etc/apt/apt.conf.d/99mmdebstrap",
                              "/var/lib/dbus/machine-id",
                              "/var/lib/systemd/random-seed",
                              "/var/lib/systemd/credential.secret",
                              "/var/cache/ldconfig/aux-cache",
                              "/var/cache/debconf/config.dat-old",
                              "/var/cache/debconf/templates.dat-old",
                              "/var/lib/dpkg/status-old",
                              "/var/lib/dpkg/diversions-old",
                              "/var/lib/dpkg/statoverride-old",
                              "/var/log/lastlog",
                              "/etc/.pwd.lock",
                              "/root/.bash_history",
                              "/root/.wget-hsts"};
constexpr std::array kEmptied{
    "/var/lib/apt/lists", "/var/cache/apt", "/var/cache/man", "/var/log/apt", "/tmp",
    "/var/tmp",           "/run",           "/root/.cache",   "/root/.npm"};
// Logs that packages wrote while they were installed: emptied, with owner and mode as they are.
constexpr std::array kTruncated{"/var/log/dpkg.log",      "/var/log/alternatives.log",
                                "/var/log/bootstrap.log", "/var/log/faillog",
                                "/var/log/btmp",          "/var/log/wtmp",
                                "/var/log/fontconfig.log"};

// The path of `inner` below `root`, where no part is a symbolic link.
Result<std::string> inside(const std::string& root, const std::string& inner) {
  std::string path = root;
  std::istringstream parts(inner.substr(1));
  std::string part;
  while (std::getline(parts, part, '/')) {
    path += "/" + part;
    struct stat st{};
    if (::lstat(path.c_str(), &st) == 0 && S_ISLNK(st.st_mode)) {
      return field_error("files.path", "template.bad_file",
                         fmt::format("{} leads through a symbolic link; name the real path", inner));
    }
  }
  return path;
}

Result<void> write_recipe_file(const std::string& root, const RecipeFile& file) {
  SPACE_TRY(const std::string path, inside(root, file.path));
  SPACE_CHECK_OK(os::make_directories(parent_of(path), 0755));
  SPACE_CHECK_OK(os::write_file_atomic(path, file.content, os::Durability::kBuffered, 0600));
  if (::chmod(path.c_str(), file.mode) != 0)
    return errno_error(errno, "os.file", "cannot change the mode of " + file.path);
  return {};
}

// For the duration of the steps: how to find names on this machine's network.
Result<void> lend_resolver(const std::string& root) {
  auto text = os::read_file("/etc/resolv.conf");
  if (!text.ok()) return {};  // steps that need no network still run
  return os::write_file_atomic(root + "/etc/resolv.conf", *text, os::Durability::kBuffered, 0644);
}

// Third field of each line: the day of the last change, which is the day of the build for accounts made by
// packages.
Result<void> fix_shadow_days(const std::string& root) {
  for (const char* name : {"/etc/shadow", "/etc/shadow-"}) {
    const std::string path = root + name;
    if (!os::exists(path)) continue;
    SPACE_TRY(const std::string text, os::read_file(path));
    std::istringstream in(text);
    std::string out;
    for (std::string line; std::getline(in, line);) {
      const std::size_t second = line.find(':', line.find(':') + 1);
      const std::size_t third = second == std::string::npos ? second : line.find(':', second + 1);
      if (third != std::string::npos && third > second + 1) {
        line = fmt::format("{}{}{}", line.substr(0, second + 1), kFixedTime / 86400, line.substr(third));
      }
      out += line + "\n";
    }
    SPACE_TRY(const os::Fd fd, os::open_file(path, O_WRONLY | O_TRUNC));  // in place: owner and mode stay
    SPACE_CHECK_OK(os::write_all(fd.get(), as_bytes(out)));
  }
  return {};
}

}  // namespace

Result<void> install_packages(const Recipe& recipe, const PackageCache& cache, const std::string& work,
                              const std::string& root, Reporter& reporter) {
  const std::string dpkg_options = work + "/dpkg.cfg";
  // Nobody needs a half-made root after a crash: no fsync for each file.
  SPACE_CHECK_OK(os::write_file_atomic(dpkg_options, std::string("force-unsafe-io\n") + kTrimOptions,
                                       os::Durability::kBuffered, 0644));
  // The cache stands in for the root's own apt directories while packages are fetched, in the tool's mount
  // namespace.
  const std::string archives = root + "/var/cache/apt/archives";
  const std::string lists = root + "/var/lib/apt/lists";
  SPACE_CHECK_OK(os::make_directory(root, 0755));
  SPACE_CHECK_OK(os::make_directories(archives, 0755));
  SPACE_CHECK_OK(os::make_directories(lists, 0755));
  std::string include;
  for (const auto& package : recipe.all_packages()) include += (include.empty() ? "" : ",") + package;
  Tool tool;
  tool.namespaces = Namespaces::kOwn;
  tool.binds = {{cache.archives, archives}, {cache.lists, lists}};
  // SOURCE_DATE_EPOCH is not set here on purpose: with it Python would compile to files that are checked by
  // the hash of their source at every import, which costs the guest more than fix_times() costs the build.
  tool.argv = {"mmdebstrap",
               "--mode=root",
               "--variant=apt",
               "--format=directory",
               "--skip=check/empty,download/empty,essential/unlink,cleanup/apt",
               "--aptopt=" + cache.settings,
               "--dpkgopt=" + dpkg_options};
  if (!include.empty()) tool.argv.push_back("--include=" + include);
  tool.argv.insert(tool.argv.end(), {recipe.suite, root, cache.sources});
  auto ran = run_tool(tool, reporter, [&](std::string_view line) {
    if (line.starts_with("I: ") && !line.starts_with("I: skipping") && !line.starts_with("I: success")) {
      reporter.say(line.substr(3));
    }
  });
  if (!ran.ok()) return std::move(ran).error();
  const std::string options_dir = root + "/etc/dpkg/dpkg.cfg.d";
  SPACE_CHECK_OK(os::remove_tree(options_dir + "/99mmdebstrap"));
  return os::write_file_atomic(options_dir + "/space-trimmed", kTrimOptions, os::Durability::kBuffered, 0644);
}

Result<void> apply_recipe(const Recipe& recipe, const std::string& root, Reporter& reporter) {
  if (!os::exists(root + "/etc/hosts")) {
    SPACE_CHECK_OK(os::write_file_atomic(root + "/etc/hosts", kHosts, os::Durability::kBuffered, 0644));
  }
  for (const auto& file : recipe.files) SPACE_CHECK_OK(write_recipe_file(root, file));
  if (recipe.run.empty()) return {};
  SPACE_CHECK_OK(lend_resolver(root));
  for (const auto& step : recipe.run) {
    std::string shown;
    for (const auto& argument : step.argv) shown += (shown.empty() ? "" : " ") + argument;
    reporter.say("running " + escape(shown, 120));
    Tool tool;
    tool.argv = step.argv;
    tool.environment = {fmt::format("SOURCE_DATE_EPOCH={}", kFixedTime)};
    tool.namespaces = Namespaces::kOwn;
    tool.chroot = root;
    auto ran = run_tool(tool, reporter);
    if (!ran.ok()) return std::move(ran).error().context("step of the recipe");
  }
  return {};
}

Result<void> trim(const std::string& root) {
  for (const char* name : kRemoved) SPACE_CHECK_OK(os::remove_tree(root + name));
  for (const char* name : kEmptied) {
    if (!os::exists(root + name)) continue;
    SPACE_TRY(const auto entries, os::list_directory(root + name));
    for (const auto& entry : entries) SPACE_CHECK_OK(os::remove_tree(root + name + "/" + entry));
  }
  // apt wants these two, empty.
  SPACE_CHECK_OK(os::make_directories(root + "/var/lib/apt/lists/partial", 0755));
  SPACE_CHECK_OK(os::make_directories(root + "/var/cache/apt/archives/partial", 0755));
  for (const char* name : kTruncated) {
    const std::string path = root + name;
    if (os::exists(path) && ::truncate(path.c_str(), 0) != 0)
      return errno_error(errno, "os.file", "cannot empty " + path);
  }
  // An empty file: systemd makes a new id at each start and keeps it in memory.
  return os::write_file_atomic(root + "/etc/machine-id", "", os::Durability::kBuffered, 0444);
}

Result<std::uint64_t> fix_times(const std::string& root, std::int64_t build_started) {
  SPACE_CHECK_OK(fix_shadow_days(root));
  std::string start = root;
  char* paths[] = {start.data(), nullptr};
  struct Close {
    void operator()(FTS* tree) const { ::fts_close(tree); }
  };
  const std::unique_ptr<FTS, Close> tree(::fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, nullptr));
  if (!tree) return errno_error(errno, "os.file", "cannot walk " + root);
  std::set<ino_t> inodes;
  errno = 0;
  while (const FTSENT* entry = ::fts_read(tree.get())) {
    if (entry->fts_info == FTS_D) continue;  // its turn comes after its contents
    if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR || entry->fts_info == FTS_NS) {
      return errno_error(entry->fts_errno, "os.file", fmt::format("cannot read {}", entry->fts_path));
    }
    const struct stat& st = *entry->fts_statp;
    if (S_ISSOCK(st.st_mode)) {  // left by a program that ran; mke2fs doesn't copy it
      if (::unlink(entry->fts_path) != 0)
        return errno_error(errno, "os.file", fmt::format("cannot remove {}", entry->fts_path));
      continue;
    }
    timespec modified = st.st_mtim;
    if (modified.tv_sec >= build_started) modified = {kFixedTime, 0};
    const timespec times[2] = {modified, modified};
    if (::utimensat(AT_FDCWD, entry->fts_path, times, AT_SYMLINK_NOFOLLOW) != 0) {
      return errno_error(errno, "os.file", fmt::format("cannot set the times of {}", entry->fts_path));
    }
    inodes.insert(st.st_ino);
    errno = 0;
  }
  if (errno != 0) return errno_error(errno, "os.file", "cannot walk " + root);
  return inodes.size();
}

}  // namespace space::node::tmpl
