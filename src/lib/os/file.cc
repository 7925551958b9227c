// SPDX-License-Identifier: Apache-2.0
#include "lib/os/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

namespace space::os {
namespace {

Error file_error(const char* verb, const std::string& path) {
  return errno_error(errno, "os.file", std::string(verb) + " " + path);
}

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

// Depth-first below an open directory; `device` stops at mounts.
Result<void> remove_entries(int directory, dev_t device, const std::string& shown) {
  int copy = ::dup(directory);
  std::unique_ptr<DIR, CloseDir> dir(::fdopendir(copy));
  if (!dir) return file_error("read", shown);
  while (dirent* entry = ::readdir(dir.get())) {
    std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat info{};
    if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;
      return file_error("stat", shown + "/" + name);
    }
    if (S_ISDIR(info.st_mode)) {
      if (info.st_dev != device) {
        return make_error(Code::kFailedPrecondition, "os.file",
                          shown + "/" + name + " is a mount; unmount it first");
      }
      Fd child(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!child) return file_error("open", shown + "/" + name);
      SPACE_CHECK_OK(remove_entries(child.get(), device, shown + "/" + name));
    }
    if (::unlinkat(directory, name.c_str(), S_ISDIR(info.st_mode) ? AT_REMOVEDIR : 0) != 0 &&
        errno != ENOENT) {
      return file_error("remove", shown + "/" + name);
    }
  }
  return {};
}

}  // namespace

Result<Fd> open_file(const std::string& path, int flags, mode_t mode) {
  Fd fd(::open(path.c_str(), flags | O_CLOEXEC, mode));
  if (!fd) return file_error("open", path);
  return fd;
}

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  SPACE_TRY(Fd fd, open_file(path, O_RDONLY));
  std::string content;
  char buffer[16384];
  for (;;) {
    ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error("read", path);
    if (got == 0) return content;
    content.append(buffer, static_cast<std::size_t>(got));
    if (content.size() > max_bytes) {
      return make_error(Code::kResourceExhausted, "os.file_too_large",
                        path + " has more than " + std::to_string(max_bytes) + " bytes");
    }
  }
}

Result<void> write_all(int fd, ByteView data) {
  while (!data.empty()) {
    ssize_t put = ::write(fd, data.data(), data.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno_error(errno, "os.file", "write");
    data = data.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

Result<void> write_file_atomic(const std::string& path, std::string_view content, Durability durability,
                               mode_t mode) {
  std::string temporary = path + ".tmp";
  ::unlink(temporary.c_str());
  SPACE_TRY(Fd fd, open_file(temporary, O_WRONLY | O_CREAT | O_EXCL, mode));
  auto written = write_all(fd.get(), as_bytes(content));
  if (written.ok() && durability == Durability::kSynced && ::fsync(fd.get()) != 0)
    written = file_error("sync", temporary);
  if (written.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) written = file_error("rename to", path);
  if (!written.ok()) {
    ::unlink(temporary.c_str());
    return written;
  }
  if (durability == Durability::kSynced) {
    auto slash = path.rfind('/');
    std::string parent = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
    SPACE_TRY(Fd directory, open_file(parent, O_RDONLY | O_DIRECTORY));
    if (::fsync(directory.get()) != 0) return file_error("sync", parent);
  }
  return {};
}

Result<void> make_directory(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) return file_error("make directory", path);
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return file_error("stat", path);
  if (!S_ISDIR(info.st_mode))
    return make_error(Code::kFailedPrecondition, "os.file", path + " is not a directory");
  return {};
}

Result<void> make_directories(const std::string& path, mode_t mode) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    SPACE_CHECK_OK(make_directory(path.substr(0, slash), mode));
  }
  return make_directory(path, mode);
}

Result<void> remove_tree(const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return {};
    return file_error("stat", path);
  }
  if (S_ISDIR(info.st_mode)) {
    SPACE_TRY(Fd directory, open_file(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    SPACE_CHECK_OK(remove_entries(directory.get(), info.st_dev, path));
    if (::rmdir(path.c_str()) != 0 && errno != ENOENT) return file_error("remove", path);
    return {};
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return file_error("remove", path);
  return {};
}

Result<std::vector<std::string>> list_directory(const std::string& path) {
  std::unique_ptr<DIR, CloseDir> dir(::opendir(path.c_str()));
  if (!dir) return file_error("list", path);
  std::vector<std::string> names;
  while (dirent* entry = ::readdir(dir.get())) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool exists(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0;
}

Result<std::uint64_t> free_bytes(const std::string& path) {
  struct statvfs info{};
  if (::statvfs(path.c_str(), &info) != 0) return file_error("statvfs", path);
  return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

}  // namespace space::os
