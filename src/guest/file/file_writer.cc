// SPDX-License-Identifier: Apache-2.0
#include "guest/file/file_writer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>

#include "guest/command/users.h"
#include "guest/file/file_info.h"
#include "guest/file/path.h"

namespace space::guest {
namespace {

struct Free {
  void operator()(char* text) const { ::free(text); }
};

// Follows links of a target that exists; a dangling link is replaced itself.
std::string resolved(const std::string& path) {
  std::unique_ptr<char, Free> real(::realpath(path.c_str(), nullptr));
  return real ? std::string(real.get()) : path;
}

std::string proc_path(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

std::string temporary_name(const std::string& target) {
  static std::atomic<unsigned> next{1};
  // Cut, so that a name of the greatest length can still be written.
  return parent_of(target) + "/." + std::string(name_of(target)).substr(0, 200) + "." +
         std::to_string(::getpid()) + "-" + std::to_string(next++) + ".space-part";
}

Result<void> take_owner(int fd, uid_t uid, gid_t gid, const std::string& path) {
  if (::fchown(fd, uid, gid) == 0 || (errno == EPERM && ::geteuid() != 0)) return {};
  return file_error(errno, "set the owner of", path);
}

}  // namespace

Result<void> make_parents(const std::string& path, uid_t uid, gid_t gid) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    std::string directory = path.substr(0, slash);
    if (::mkdir(directory.c_str(), 0755) == 0) {
      if (::geteuid() == 0 && ::lchown(directory.c_str(), uid, gid) != 0)
        return file_error(errno, "set the owner of", directory);
    } else if (errno != EEXIST) {
      return file_error(errno, "make directory", directory);
    }
  }
  return {};
}

FileWriter::~FileWriter() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<void> FileWriter::open(const guestapi::WriteFileT& request) {
  shown_ = request.path;
  if (request.path.back() == '/')
    return Error{Code::kInvalidArgument, "guest.is_a_directory", "the path names a directory", "path"};
  SPACE_TRY(User owner, find_user(request.user));
  if (request.make_parents) SPACE_CHECK_OK(make_parents(request.path, owner.uid, owner.gid));
  target_ = resolved(request.path);
  in_place_ = request.in_place;

  struct stat old{};
  bool replaces = ::stat(target_.c_str(), &old) == 0;
  if (!replaces && errno != ENOENT) return file_error(errno, "stat", target_);
  if (replaces && S_ISDIR(old.st_mode)) return file_error(EISDIR, "write", request.path);
  if (replaces && !S_ISREG(old.st_mode)) {
    return make_error(Code::kFailedPrecondition, "guest.not_a_regular_file",
                      "only regular files can be written; use a command for devices and pipes");
  }
  mode_t mode = replaces ? old.st_mode & 07777 : request.mode & 07777;
  if (in_place_) {
    fd_ = os::Fd(::open(target_.c_str(), O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0600));
    if (!fd_) return file_error(errno, "open", request.path);
    if (::ftruncate(fd_.get(), static_cast<off_t>(request.offset)) != 0)
      return file_error(errno, "truncate", request.path);
    if (::lseek(fd_.get(), static_cast<off_t>(request.offset), SEEK_SET) < 0)
      return file_error(errno, "seek in", request.path);
    if (replaces) return {};
  } else {
    SPACE_CHECK_OK(open_temporary(parent_of(target_), request.path));
  }
  // Owner first: changing it clears set-user-id bits of the mode.
  SPACE_CHECK_OK(take_owner(fd_.get(), replaces ? old.st_uid : owner.uid, replaces ? old.st_gid : owner.gid,
                            request.path));
  if (::fchmod(fd_.get(), mode) != 0) return file_error(errno, "set the mode of", request.path);
  return {};
}

Result<void> FileWriter::open_temporary(const std::string& directory, const std::string& name) {
  fd_ = os::Fd(::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (fd_) return {};
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) return file_error(errno, "write", name);
  temporary_ = temporary_name(target_);
  fd_ = os::Fd(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (fd_) return {};
  temporary_.clear();
  return file_error(errno, "write", name);
}

Result<void> FileWriter::write(ByteView bytes) {
  while (!bytes.empty()) {
    ssize_t put = ::write(fd_.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return file_error(errno, "write", shown_);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

// link(2) can't replace, so a file without a name gets a temporary one first.
Result<void> FileWriter::give_name() {
  if (temporary_.empty()) {
    std::string name = temporary_name(target_);
    if (::linkat(AT_FDCWD, proc_path(fd_.get()).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      return file_error(errno, "name", shown_);
    }
    temporary_ = std::move(name);
  }
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return file_error(errno, "replace", shown_);
  temporary_.clear();
  return {};
}

Result<guestapi::FileInfoT> FileWriter::commit() {
  if (::fsync(fd_.get()) != 0) return file_error(errno, "sync", shown_);
  if (!in_place_) {
    SPACE_CHECK_OK(give_name());
    os::Fd directory(::open(parent_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory && ::fsync(directory.get()) != 0) return file_error(errno, "sync the directory of", shown_);
  }
  struct stat status{};
  if (::fstat(fd_.get(), &status) != 0) return file_error(errno, "stat", shown_);
  fd_.reset();
  return file_info(status, AT_FDCWD, target_, shown_);
}

}  // namespace space::guest
