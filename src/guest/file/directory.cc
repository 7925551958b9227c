// SPDX-License-Identifier: Apache-2.0
#include "guest/file/directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <vector>

#include "guest/command/users.h"
#include "guest/file/file_info.h"
#include "guest/file/file_writer.h"
#include "guest/file/path.h"

namespace space::guest {

Result<void> DirectoryReader::open(const std::string& path) {
  path_ = path;
  dir_.reset(::opendir(path.c_str()));
  if (!dir_) return file_error(errno, "list", path);
  return {};
}

Result<guestapi::DirectoryPageT> DirectoryReader::next() {
  guestapi::DirectoryPageT page;
  std::size_t bytes = 0;
  while (page.entries.size() < kPageEntries && bytes < kPageBytes) {
    errno = 0;
    dirent* entry = ::readdir(dir_.get());
    if (entry == nullptr) {
      if (errno != 0) return file_error(errno, "list", path_);
      break;
    }
    std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat status{};
    int directory = ::dirfd(dir_.get());
    if (::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    auto info = std::make_unique<guestapi::FileInfoT>(file_info(status, directory, name, name));
    bytes += 96 + info->path.size() + info->target.size();
    page.entries.push_back(std::move(info));
  }
  return page;
}

Result<void> make_directory(const guestapi::MakeDirectoryT& request) {
  SPACE_TRY(User owner, find_user(request.user));
  std::string path = without_trailing_slashes(request.path);
  if (request.parents) SPACE_CHECK_OK(make_parents(path, owner.uid, owner.gid));
  if (::mkdir(path.c_str(), 0700) != 0) {
    int error = errno;
    struct stat status{};
    bool there = error == EEXIST && ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
    if (there && request.parents) return {};
    return file_error(error, "make directory", request.path);
  }
  if (::geteuid() == 0 && ::lchown(path.c_str(), owner.uid, owner.gid) != 0)
    return file_error(errno, "set the owner of", path);
  if (::chmod(path.c_str(), request.mode & 07777) != 0) return file_error(errno, "set the mode of", path);
  return {};
}

namespace {

// What rename(2) can't do: another file system.
Result<void> move_by_copy(const guestapi::MoveFileT& request, const struct stat& status) {
  if (S_ISLNK(status.st_mode)) {
    SPACE_TRY(auto info, stat_path(request.from, FollowLinks::kNo));
    if (request.overwrite) ::unlink(request.to.c_str());
    if (::symlink(info.target.c_str(), request.to.c_str()) != 0)
      return file_error(errno, "make link", request.to);
  } else if (S_ISREG(status.st_mode)) {
    os::Fd source(::open(request.from.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!source) return file_error(errno, "open", request.from);
    guestapi::WriteFileT target;
    target.path = request.to;
    target.mode = status.st_mode & 07777;
    target.user = std::to_string(status.st_uid);
    FileWriter writer;
    SPACE_CHECK_OK(writer.open(target));
    std::vector<std::byte> buffer(256u << 10);
    for (;;) {
      ssize_t got = ::read(source.get(), buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return file_error(errno, "read", request.from);
      if (got == 0) break;
      SPACE_CHECK_OK(writer.write(ByteView(buffer).first(static_cast<std::size_t>(got))));
    }
    SPACE_TRY([[maybe_unused]] auto info, writer.commit());
  } else {
    return make_error(Code::kFailedPrecondition, "guest.cross_device",
                      "only files and links can be moved to another file system; use a command such as mv");
  }
  if (::unlink(request.from.c_str()) != 0) return file_error(errno, "remove", request.from);
  return {};
}

}  // namespace

Result<void> move_file(const guestapi::MoveFileT& request) {
  unsigned flags = request.overwrite ? 0 : RENAME_NOREPLACE;
  if (::renameat2(AT_FDCWD, request.from.c_str(), AT_FDCWD, request.to.c_str(), flags) == 0) return {};
  int error = errno;
  struct stat source{};
  if (::lstat(request.from.c_str(), &source) != 0) return file_error(errno, "move", request.from);
  struct stat target{};
  bool occupied = ::lstat(request.to.c_str(), &target) == 0;
  if (occupied && !request.overwrite) return file_error(EEXIST, "move to", request.to);
  if (error == EINVAL && flags != 0) {  // a file system without RENAME_NOREPLACE
    if (::rename(request.from.c_str(), request.to.c_str()) == 0) return {};
    error = errno;
  }
  if (error == EXDEV && !(occupied && S_ISDIR(target.st_mode))) return move_by_copy(request, source);
  return file_error(error, "move to", request.to);
}

namespace {

// Removes what is below `top`, depth first, with one open directory at a time, so that depth costs nothing.
Result<void> empty_tree(const std::string& top, dev_t device, const std::atomic<bool>& stop) {
  struct Step {
    std::string name;
    ino_t inode;
  };
  std::vector<Step> path;  // the way down
  auto joined = [&] {
    std::string text;
    for (const auto& step : path) text += (text.empty() ? "" : "/") + step.name;
    return text;
  };
  os::Fd here(::open(top.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  if (!here || ::fstat(here.get(), &status) != 0) return file_error(errno, "remove", top);
  path.push_back({top, status.st_ino});
  while (!path.empty()) {
    if (stop.load()) return make_error(Code::kAborted, "guest.aborted", "the removal was cancelled half-way");
    std::string deeper;
    bool blocked = false;
    {
      DIR* dir = ::fdopendir(::dup(here.get()));
      if (dir == nullptr) return file_error(errno, "remove", joined());
      ::rewinddir(dir);
      std::unique_ptr<DIR, int (*)(DIR*)> close(dir, &::closedir);
      while (dirent* entry = ::readdir(dir)) {
        std::string name = entry->d_name;
        if (name == "." || name == "..") continue;
        if (stop.load()) break;
        if (::unlinkat(here.get(), name.c_str(), 0) == 0 || errno == ENOENT) continue;
        if (errno != EISDIR && errno != EPERM) return file_error(errno, "remove", joined() + "/" + name);
        int error = errno;
        if (::unlinkat(here.get(), name.c_str(), AT_REMOVEDIR) == 0) continue;
        if (errno == ENOTDIR) return file_error(error, "remove", joined() + "/" + name);
        if (errno != ENOTEMPTY && errno != EEXIST) return file_error(errno, "remove", joined() + "/" + name);
        deeper = name;
        blocked = true;
        break;
      }
    }
    if (stop.load()) continue;
    if (blocked) {
      os::Fd child(::openat(here.get(), deeper.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!child || ::fstat(child.get(), &status) != 0)
        return file_error(errno, "remove", joined() + "/" + deeper);
      path.push_back({deeper, status.st_ino});
      if (status.st_dev != device) return file_error(EBUSY, "remove (something is mounted there)", joined());
      here = std::move(child);
      continue;
    }
    std::string done = path.back().name;
    path.pop_back();
    if (path.empty()) break;
    os::Fd parent(::openat(here.get(), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!parent || ::fstat(parent.get(), &status) != 0) return file_error(errno, "remove", joined());
    // Somebody who moves directories about must not lead the removal elsewhere.
    if (status.st_dev != device || status.st_ino != path.back().inode)
      return file_error(EBUSY, "remove (it was moved)", joined());
    here = std::move(parent);
    if (::unlinkat(here.get(), done.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
      return file_error(errno, "remove", joined() + "/" + done);
  }
  return {};
}

}  // namespace

Result<void> remove_file(const guestapi::RemoveFileT& request, const std::atomic<bool>& stop) {
  std::string path = without_trailing_slashes(request.path);
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return file_error(errno, "remove", request.path);
  if (!S_ISDIR(status.st_mode)) {
    if (::unlink(path.c_str()) != 0) return file_error(errno, "remove", request.path);
    return {};
  }
  struct stat root{};
  if (::stat("/", &root) == 0 && root.st_dev == status.st_dev && root.st_ino == status.st_ino) {
    return Error{Code::kInvalidArgument, "guest.malformed_path", "the root directory can't be removed",
                 "path"};
  }
  if (request.recursive) SPACE_CHECK_OK(empty_tree(path, status.st_dev, stop));
  if (::rmdir(path.c_str()) != 0) return file_error(errno, "remove", request.path);
  return {};
}

}  // namespace space::guest
