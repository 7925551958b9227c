// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/blob/file_system.h"
#include "lib/os/fd.h"

namespace space::blob {
namespace {

Error disk_error(int error_number, const char* verb, const std::string& path) {
  const char* reason = "blob.io";
  switch (error_number) {
    case ENOENT:
      reason = "blob.not_found";
      break;
    case EEXIST:
      reason = "blob.exists";
      break;
    case ENOSPC:
    case EDQUOT:
      reason = "blob.no_space";
      break;
    default:
      break;
  }
  return errno_error(error_number, reason, std::string(verb) + " " + path);
}

class RealOutput final : public OutputFile {
 public:
  RealOutput(os::Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Result<std::size_t> write(ByteView data) override {
    for (;;) {
      ssize_t put = ::write(fd_.get(), data.data(), data.size());
      if (put >= 0) return static_cast<std::size_t>(put);
      if (errno != EINTR) return disk_error(errno, "write", path_);
    }
  }
  Result<void> sync() override {
    if (::fdatasync(fd_.get()) != 0) return disk_error(errno, "sync", path_);
    return {};
  }

 private:
  os::Fd fd_;
  std::string path_;
};

class RealInput final : public InputFile {
 public:
  RealInput(os::Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> out) override {
    for (;;) {
      ssize_t got = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) return disk_error(errno, "read", path_);
    }
  }
  Result<std::uint64_t> size() override {
    struct stat info{};
    if (::fstat(fd_.get(), &info) != 0) return disk_error(errno, "stat", path_);
    return static_cast<std::uint64_t>(info.st_size);
  }

 private:
  os::Fd fd_;
  std::string path_;
};

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

class RealFileSystem final : public FileSystem {
 public:
  explicit RealFileSystem(std::string root) : root_(std::move(root)) {}

  Result<std::unique_ptr<OutputFile>> create(const std::string& path) override {
    os::Fd fd(::open(at(path).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return disk_error(errno, "create", path);
    return std::unique_ptr<OutputFile>(std::make_unique<RealOutput>(std::move(fd), path));
  }
  Result<std::unique_ptr<InputFile>> open(const std::string& path) override {
    os::Fd fd(::open(at(path).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) return disk_error(errno, "open", path);
    return std::unique_ptr<InputFile>(std::make_unique<RealInput>(std::move(fd), path));
  }
  Result<void> link(const std::string& from, const std::string& to) override {
    if (::link(at(from).c_str(), at(to).c_str()) != 0) return disk_error(errno, "link", to);
    return {};
  }
  Result<void> unlink(const std::string& path) override {
    if (::unlink(at(path).c_str()) != 0) return disk_error(errno, "remove", path);
    return {};
  }
  Result<void> make_directory(const std::string& path) override {
    if (::mkdir(at(path).c_str(), 0700) != 0 && errno != EEXIST)
      return disk_error(errno, "make directory", path);
    return {};
  }
  Result<void> remove_directory(const std::string& path) override {
    if (::rmdir(at(path).c_str()) != 0) return disk_error(errno, "remove directory", path);
    return {};
  }
  Result<void> sync_directory(const std::string& path) override {
    os::Fd fd(::open(at(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return disk_error(errno, "open directory", path);
    if (::fsync(fd.get()) != 0) return disk_error(errno, "sync directory", path);
    return {};
  }
  Result<std::vector<DirectoryEntry>> list(const std::string& path) override {
    std::unique_ptr<DIR, CloseDir> dir(::opendir(at(path).c_str()));
    if (!dir) return disk_error(errno, "list", path);
    std::vector<DirectoryEntry> entries;
    for (;;) {
      errno = 0;
      dirent* entry = ::readdir(dir.get());
      if (entry == nullptr) {
        if (errno != 0) return disk_error(errno, "list", path);
        break;
      }
      std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      struct stat info{};
      if (::fstatat(::dirfd(dir.get()), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) continue;  // removed meanwhile
        return disk_error(errno, "stat", path + "/" + name);
      }
      auto modified = WallTime(std::chrono::seconds(info.st_mtim.tv_sec) +
                               std::chrono::microseconds(info.st_mtim.tv_nsec / 1000));
      entries.push_back(
          {std::move(name), S_ISDIR(info.st_mode), static_cast<std::uint64_t>(info.st_size), modified});
    }
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return entries;
  }
  Result<std::uint64_t> free_bytes() override {
    struct statvfs info{};
    if (::statvfs(root_.c_str(), &info) != 0) return disk_error(errno, "statvfs", root_);
    return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  }

 private:
  [[nodiscard]] std::string at(const std::string& path) const {
    return path.empty() ? root_ : root_ + "/" + path;
  }
  std::string root_;
};

}  // namespace

std::unique_ptr<FileSystem> open_real_file_system(std::string root) {
  return std::make_unique<RealFileSystem>(std::move(root));
}

}  // namespace space::blob
