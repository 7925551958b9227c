// SPDX-License-Identifier: Apache-2.0
#include "node/template/workspace.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>

#include <fmt/core.h>

#include "lib/os/file.h"

namespace space::node::tmpl {
namespace {

std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// Makes a rename durable.
Result<void> sync_directory(const std::string& path) {
  SPACE_TRY(const os::Fd fd, os::open_file(path, O_RDONLY | O_DIRECTORY));
  if (::fsync(fd.get()) != 0) return errno_error(errno, "os.file", "cannot sync " + path);
  return {};
}

}  // namespace

Result<os::Fd> lock_file(const std::string& path, Reporter& reporter, const std::string& waiting) {
  SPACE_TRY(os::Fd fd, os::open_file(path, O_RDWR | O_CREAT));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) return errno_error(errno, "os.file", "cannot lock " + path);
  reporter.say(waiting);
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return errno_error(errno, "os.file", "cannot lock " + path);
  }
  return fd;
}

Result<BuildDirectory> BuildDirectory::make(const std::string& out_dir) {
  const std::string parent = parent_of(out_dir);
  const std::string prefix = fmt::format(".building-{}-", leaf_of(out_dir));
  SPACE_TRY(const auto names, os::list_directory(parent));
  for (const auto& name : names) {
    const bool ours = name.starts_with(prefix) && name.size() == prefix.size() + 6;
    if (ours) SPACE_CHECK_OK(os::remove_tree(parent + "/" + name));
  }
  std::string path = parent + "/" + prefix + "XXXXXX";
  if (::mkdtemp(path.data()) == nullptr)
    return errno_error(errno, "os.file", "cannot make a directory in " + parent);
  // apt reads packages as its own user.
  if (::chmod(path.c_str(), 0755) != 0)
    return errno_error(errno, "os.file", "cannot change the mode of " + path);
  return BuildDirectory(path);
}

BuildDirectory::~BuildDirectory() {
  if (!path_.empty()) os::remove_tree(path_).ignore("a later build of the template removes what is left");
}

Result<void> publish_directory(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) {
      return errno_error(errno, "os.file", fmt::format("cannot rename {} to {}", from, to));
    }
    if (::syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
      return errno_error(errno, "os.file", fmt::format("cannot exchange {} and {}", from, to));
    }
  }
  SPACE_CHECK_OK(sync_directory(parent_of(to)));
  return os::remove_tree(from);  // the old one after an exchange, nothing after a rename
}

std::string parent_of(const std::string& path) {
  const std::string clean = without_trailing_slashes(path);
  const std::size_t slash = clean.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : without_trailing_slashes(clean.substr(0, slash));
}

std::string leaf_of(const std::string& path) {
  const std::string clean = without_trailing_slashes(path);
  return clean.substr(clean.rfind('/') + 1);
}

Result<std::string> absolute(const std::string& path) {
  if (path.empty()) return field_error("path", "template.bad_path", "a path is empty");
  if (path[0] == '/') return without_trailing_slashes(path);
  char here[PATH_MAX];
  if (::getcwd(here, sizeof here) == nullptr)
    return errno_error(errno, "os.file", "cannot find the working directory");
  return without_trailing_slashes(std::string(here) + "/" + path);
}

}  // namespace space::node::tmpl
