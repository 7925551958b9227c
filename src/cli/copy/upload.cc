// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <cerrno>
#include <memory>

#include "cli/copy/copy.h"
#include "cli/printable.h"
#include "cli/target.h"
#include "lib/os/file.h"

namespace space::cli::copy {
namespace json = boost::json;
using async::Task;

namespace {

Error file_error(const char* verb, const std::string& path) {
  return errno_error(errno, "os.file", std::string(verb) + " " + path);
}
Error usage(const std::string& message) {
  return make_error(Code::kInvalidArgument, "cli.usage", message);
}

class FileSource final : public http::client::BodySource {
 public:
  FileSource(int fd, Progress& progress, Summary& summary)
      : fd_(fd), progress_(progress), summary_(summary) {}
  Task<Result<std::size_t>> read(std::span<std::byte> out) override {
    ssize_t got;
    do {
      got = ::read(fd_, out.data(), out.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) co_return errno_error(errno, "os.file", "read the local file");
    progress_.add(static_cast<std::uint64_t>(got));
    summary_.bytes += static_cast<std::uint64_t>(got);
    co_return static_cast<std::size_t>(got);
  }

 private:
  int fd_;
  Progress& progress_;
  Summary& summary_;
};

class PipeSource final : public http::client::BodySource {
 public:
  PipeSource(InputReader& input, Progress& progress, Summary& summary)
      : input_(input), progress_(progress), summary_(summary) {}
  Task<Result<std::size_t>> read(std::span<std::byte> out) override {
    auto got = co_await input_.read(out);
    if (got.ok()) progress_.add(*got), summary_.bytes += *got;
    co_return std::move(got);
  }

 private:
  InputReader& input_;
  Progress& progress_;
  Summary& summary_;
};

Task<Result<void>> put(Copy& copy, http::client::BodySource& source, std::string remote, unsigned mode,
                       std::optional<std::uint64_t> size) {
  auto request = Api::request(
      "PUT", files_target(copy.session, "", {{"path", remote}, {"mode", octal(mode)}, {"parents", "true"}}));
  request.headers.push_back({"Content-Type", "application/octet-stream"});
  auto response = co_await copy.context.api.client().upload(std::move(request), source, size);
  if (!response.ok()) co_return std::move(response).error();
  if (!response->ok()) co_return Api::error_from(*response);
  ++copy.summary.files;
  co_return Result<void>();
}

Task<Result<void>> upload_file(Copy& copy, os::Fd file, const struct stat& info, std::string shown,
                               std::string remote) {
  auto size = static_cast<std::uint64_t>(info.st_size);
  copy.progress.file(shown, size);
  FileSource source(file.get(), copy.progress, copy.summary);
  auto sent = co_await put(copy, source, remote, info.st_mode, size);
  if (!sent.ok()) co_return std::move(sent).error().context(printable(shown));
  co_return Result<void>();
}

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

Result<std::vector<std::string>> names_in(int directory, const std::string& shown) {
  std::unique_ptr<DIR, CloseDir> dir(::fdopendir(::fcntl(directory, F_DUPFD_CLOEXEC, 0)));
  if (!dir) return file_error("list", shown);
  std::vector<std::string> names;
  while (dirent* entry = ::readdir(dir.get())) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

Task<Result<void>> make_remote_directory(Copy& copy, const std::string& remote, unsigned mode) {
  auto made = co_await copy.context.api.change(
      "POST", files_target(copy.session, "/mkdir", {}),
      json::object{{"path", remote}, {"mode", octal(mode | 0700U)}, {"parents", true}});
  if (!made.ok() && made.error().reason != "guest.exists") co_return std::move(made).error();
  ++copy.summary.directories;
  co_return Result<void>();
}

Task<Result<void>> upload_tree(Copy& copy, os::Fd directory, std::string shown, std::string remote,
                               int depth) {
  if (depth > kMaxDepth)
    co_return make_error(Code::kInvalidArgument, "cli.too_deep",
                         "directories are nested too deeply at " + shown);
  struct stat info{};
  if (::fstat(directory.get(), &info) != 0) co_return file_error("stat", shown);
  SPACE_CO_CHECK_OK(co_await make_remote_directory(copy, remote, info.st_mode));
  SPACE_CO_TRY(auto names, names_in(directory.get(), shown));
  for (const auto& name : names) {
    std::string path = join(shown, name);
    if (!is_utf8(name)) {
      copy.skip(path, "its name is not UTF-8");
      continue;
    }
    os::Fd entry(::openat(directory.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!entry && (errno == ELOOP || errno == ENXIO || errno == ENOENT)) {
      copy.skip(path, errno == ELOOP ? "it is a symbolic link" : "it is no regular file");
      continue;
    }
    if (!entry) co_return file_error("open", path);
    if (::fstat(entry.get(), &info) != 0) co_return file_error("stat", path);
    if (S_ISDIR(info.st_mode)) {
      SPACE_CO_CHECK_OK(co_await upload_tree(copy, std::move(entry), path, join(remote, name), depth + 1));
    } else if (S_ISREG(info.st_mode)) {
      SPACE_CO_CHECK_OK(co_await upload_file(copy, std::move(entry), info, path, join(remote, name)));
    } else {
      copy.skip(path, "it is no regular file");
    }
  }
  co_return Result<void>();
}

// Where it goes: into `remote` under the source's name when that is a directory (or is written as one), else
// to it.
Task<Result<std::string>> destination(Copy& copy, const std::string& local, std::string remote) {
  SPACE_CO_TRY(auto there, co_await remote_stat(copy.context, copy.session, remote));
  bool into = (there && there->kind == "directory") || (!there && remote.ends_with('/') && remote != "/");
  if (!into) co_return std::move(remote);
  std::string name = base_name(local);
  if (!is_plain_name(name)) co_return std::move(remote);  // "." or "..": the contents go there
  co_return join(remote, name);
}

}  // namespace

Task<Result<void>> upload(Copy& copy, std::string local, std::string remote, Depth depth) {
  if (local == "-") {
    if (remote.ends_with('/')) co_return usage("name the file to write: " + remote + "NAME");
    InputReader input(copy.context.pool, copy.context.world.stdio.in);
    copy.progress.file("standard input", std::nullopt);
    PipeSource source(input, copy.progress, copy.summary);
    co_return co_await put(copy, source, remote, 0644, std::nullopt);
  }
  os::Fd fd(::open(local.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) co_return file_error("open", local);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) co_return file_error("stat", local);
  if (S_ISDIR(info.st_mode) && depth == Depth::kSingle)
    co_return usage(local + " is a directory; copy it with -r");
  if (!S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode))
    co_return usage(local + " is no regular file; pipe it: space cp - SESSION:PATH");
  SPACE_CO_TRY(std::string target, co_await destination(copy, local, std::move(remote)));
  if (S_ISDIR(info.st_mode)) co_return co_await upload_tree(copy, std::move(fd), local, target, 0);
  co_return co_await upload_file(copy, std::move(fd), info, local, target);
}

}  // namespace space::cli::copy
