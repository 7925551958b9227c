// SPDX-License-Identifier: Apache-2.0
#include "cli/copy/local_tree.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "cli/target.h"
#include "lib/os/file.h"

namespace space::cli::copy {
namespace {

Error file_error(const char* verb, const std::string& name) {
  return errno_error(errno, "os.file", std::string(verb) + " " + escape(name));
}

Result<void> check_name(const std::string& name) {
  if (is_plain_name(name)) return {};
  return make_error(Code::kDataLoss, "cli.hostile_name", "\"" + escape(name) + "\" is no file name");
}

}  // namespace

NewFile::NewFile(os::Fd directory, os::Fd file, std::string name, std::string temporary, bool linked)
    : directory_(std::move(directory)),
      file_(std::move(file)),
      name_(std::move(name)),
      temporary_(std::move(temporary)),
      linked_(linked) {}

NewFile::NewFile(NewFile&& other) noexcept
    : directory_(std::move(other.directory_)),
      file_(std::move(other.file_)),
      name_(std::move(other.name_)),
      temporary_(std::move(other.temporary_)),
      linked_(std::exchange(other.linked_, false)) {}

NewFile::~NewFile() {
  if (linked_) ::unlinkat(directory_.get(), temporary_.c_str(), 0);
}

Result<void> NewFile::write(ByteView data) {
  return os::write_all(file_.get(), data);
}

Result<void> NewFile::commit(mode_t mode) {
  if (::fchmod(file_.get(), mode & 0777U) != 0) return file_error("set the mode of", name_);
  if (!linked_) {
    // The file has no name yet; a link can't replace one, so it gets the temporary name for a moment.
    std::string self = "/proc/self/fd/" + std::to_string(file_.get());
    if (::linkat(AT_FDCWD, self.c_str(), directory_.get(), temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0)
      return file_error("name", name_);
    linked_ = true;
  }
  // A close that fails is a write that failed (network file systems report it here).
  int fd = file_.release();
  if (::close(fd) != 0) return file_error("write", name_);
  if (::renameat(directory_.get(), temporary_.c_str(), directory_.get(), name_.c_str()) != 0)
    return file_error("replace", name_);
  linked_ = false;
  return {};
}

Result<LocalDirectory> LocalDirectory::open(const std::string& path) {
  SPACE_TRY(os::Fd fd, os::open_file(path, O_RDONLY | O_DIRECTORY));
  return LocalDirectory(std::move(fd));
}

Result<LocalDirectory> LocalDirectory::enter(const std::string& name) const {
  SPACE_CHECK_OK(check_name(name));
  if (::mkdirat(fd_.get(), name.c_str(), 0755) != 0 && errno != EEXIST)
    return file_error("make directory", name);
  os::Fd inner(::openat(fd_.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!inner) return file_error("enter directory", name);
  return LocalDirectory(std::move(inner));
}

Result<NewFile> LocalDirectory::create(const std::string& name, os::Random& random) const {
  SPACE_CHECK_OK(check_name(name));
  struct stat info{};
  if (::fstatat(fd_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode)) {
    return make_error(Code::kFailedPrecondition, "os.file",
                      escape(name) + " is a directory here and a file there");
  }
  std::string temporary = ".space-cp-" + random.id_text();
  os::Fd directory(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  if (!directory) return file_error("open the directory of", name);
  os::Fd file(::openat(fd_.get(), ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600));
  bool linked = false;
  if (!file &&
      (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {  // a file system without nameless files
    file = os::Fd(
        ::openat(fd_.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    linked = file.valid();
  }
  if (!file) return file_error("create", name);
  return NewFile(std::move(directory), std::move(file), name, temporary, linked);
}

Result<void> LocalDirectory::set_mode(mode_t mode) const {
  if (::fchmod(fd_.get(), (mode & 0777U) | 0700U) != 0) return file_error("set the mode of", "directory");
  return {};
}

}  // namespace space::cli::copy
