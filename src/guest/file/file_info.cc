// SPDX-License-Identifier: Apache-2.0
#include "guest/file/file_info.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "guest/file/path.h"

namespace space::guest {
namespace {

guestapi::FileKind kind_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return guestapi::FileKind::Regular;
    case S_IFDIR:
      return guestapi::FileKind::Directory;
    case S_IFLNK:
      return guestapi::FileKind::Symlink;
    case S_IFIFO:
      return guestapi::FileKind::Fifo;
    case S_IFSOCK:
      return guestapi::FileKind::Socket;
    case S_IFCHR:
      return guestapi::FileKind::CharDevice;
    case S_IFBLK:
      return guestapi::FileKind::BlockDevice;
    default:
      return guestapi::FileKind::Unknown;
  }
}

}  // namespace

guestapi::FileInfoT file_info(const struct stat& status, int directory, const std::string& name,
                              std::string shown) {
  guestapi::FileInfoT info;
  info.path = std::move(shown);
  info.kind = kind_of(status.st_mode);
  info.size = static_cast<std::uint64_t>(status.st_size);
  info.mode = status.st_mode & 07777;
  info.uid = status.st_uid;
  info.gid = status.st_gid;
  info.modified_ms = std::int64_t{status.st_mtim.tv_sec} * 1000 + status.st_mtim.tv_nsec / 1'000'000;
  if (info.kind == guestapi::FileKind::Symlink) {
    char target[PATH_MAX];
    ssize_t length = ::readlinkat(directory, name.c_str(), target, sizeof target);
    if (length > 0) info.target.assign(target, static_cast<std::size_t>(length));
  }
  return info;
}

Result<guestapi::FileInfoT> stat_path(const std::string& path, FollowLinks follow) {
  struct stat status{};
  if (::fstatat(AT_FDCWD, path.c_str(), &status, follow == FollowLinks::kYes ? 0 : AT_SYMLINK_NOFOLLOW) !=
      0) {
    return file_error(errno, "stat", path);
  }
  return file_info(status, AT_FDCWD, path, path);
}

}  // namespace space::guest
