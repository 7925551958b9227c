// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>

#include <boost/json/array.hpp>
#include <charconv>

#include "cli/copy/copy.h"
#include "cli/copy/local_tree.h"
#include "cli/target.h"
#include "lib/os/file.h"

namespace space::cli::copy {
namespace json = boost::json;
using async::Task;

namespace {

Error usage(const std::string& message) {
  return make_error(Code::kInvalidArgument, "cli.usage", message);
}

class FileSink final : public http::client::BodySink {
 public:
  FileSink(Copy& copy, NewFile& file, std::string shown)
      : copy_(copy), file_(file), shown_(std::move(shown)) {}
  void head(const http::client::Response& response) override {
    copy_.progress.file(shown_, response.content_length);
  }
  Task<Result<void>> write(ByteView data) override {
    copy_.progress.add(data.size());
    copy_.summary.bytes += data.size();
    co_return file_.write(data);
  }

 private:
  Copy& copy_;
  NewFile& file_;
  std::string shown_;
};

class StreamSink final : public http::client::BodySink {
 public:
  explicit StreamSink(Copy& copy) : copy_(copy), output_(copy.context.pool) {}
  Task<Result<void>> write(ByteView data) override {
    copy_.summary.bytes += data.size();
    return output_.write(copy_.context.world.stdio.out, data);
  }

 private:
  Copy& copy_;
  OutputWriter output_;
};

Task<Result<http::client::Response>> fetch(Copy& copy, const std::string& remote,
                                           http::client::BodySink& sink) {
  auto request = Api::request("GET", files_target(copy.session, "", {{"path", remote}}));
  auto response = co_await copy.context.api.client().download(std::move(request), sink);
  if (!response.ok()) co_return std::move(response).error();
  if (!response->ok()) co_return Api::error_from(*response);
  ++copy.summary.files;
  co_return std::move(response);
}

mode_t mode_of(const http::client::Response& response, unsigned otherwise) {
  std::string_view text = response.header("Space-File-Mode");
  unsigned bits = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits, 8);
  return error == std::errc() && !text.empty() && end == text.data() + text.size() ? bits & 0777U : otherwise;
}

Task<Result<void>> download_file(Copy& copy, std::string remote, const LocalDirectory& directory,
                                 std::string name, unsigned mode) {
  SPACE_CO_TRY(NewFile file, directory.create(name, copy.context.random));
  FileSink sink(copy, file, remote);
  SPACE_CO_TRY(auto response, co_await fetch(copy, remote, sink));
  co_return file.commit(mode_of(response, mode));
}

Task<Result<void>> download_tree(Copy& copy, std::string remote, LocalDirectory directory, unsigned mode,
                                 int depth) {
  if (depth > kMaxDepth)
    co_return make_error(Code::kDataLoss, "cli.too_deep",
                         "directories are nested too deeply at " + escape(remote));
  ++copy.summary.directories;
  SPACE_CO_TRY(json::value listing,
               co_await copy.context.api.get(files_target(copy.session, "/list", {{"path", remote}})));
  const auto* items = member(listing, "items");
  if (items == nullptr || !items->is_array())
    co_return make_error(Code::kInternal, "cli.bad_answer", "a listing without items");
  for (const auto& item : items->get_array()) {
    SPACE_CO_TRY(std::string name, name_in_listing(remote, text_of(item, "path")));
    std::string path = join(remote, name);
    RemoteInfo info = remote_info(item);
    if (info.kind == "directory") {
      SPACE_CO_TRY(auto inner, directory.enter(name));
      SPACE_CO_CHECK_OK(co_await download_tree(copy, path, std::move(inner), info.mode, depth + 1));
    } else if (info.kind == "regular") {
      SPACE_CO_CHECK_OK(co_await download_file(copy, path, directory, name, info.mode));
    } else {
      copy.skip(path, info.kind == "symlink" ? "it is a symbolic link" : "it is no regular file");
    }
  }
  co_return directory.set_mode(mode);
}

// The directory and name that the user's local path stands for.
struct Landing {
  std::string directory;
  std::string name;
};
Result<Landing> landing(const std::string& local, const std::string& remote) {
  struct stat info{};
  bool there = ::stat(local.c_str(), &info) == 0;
  if (there && S_ISDIR(info.st_mode)) {
    std::string name = base_name(remote);
    if (!is_plain_name(name)) return usage("name the target: " + local + "/NAME");
    return Landing{local, name};
  }
  if (local.ends_with('/')) {
    return make_error(Code::kNotFound, "os.file", "there is no directory " + local);
  }
  auto slash = local.rfind('/');
  std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : local.substr(0, slash);
  std::string name = slash == std::string::npos ? local : local.substr(slash + 1);
  if (!is_plain_name(name)) return usage("\"" + local + "\" is no file name");
  return Landing{directory, name};
}

}  // namespace

Task<Result<void>> download(Copy& copy, std::string remote, std::string local, Depth depth) {
  SPACE_CO_TRY(auto there, co_await remote_stat(copy.context, copy.session, remote));
  if (!there)
    co_return make_error(Code::kNotFound, "guest.no_such_file",
                         "there is no " + remote + " in " + copy.session);
  bool tree = there->kind == "directory";
  if (tree && depth == Depth::kSingle) co_return usage(remote + " is a directory; copy it with -r");
  if (!tree && there->kind != "regular") co_return usage(remote + " is no regular file but: " + there->kind);
  if (local == "-") {
    if (tree) co_return usage("a directory can't be copied to standard output");
    StreamSink sink(copy);
    SPACE_CO_TRY(auto response, co_await fetch(copy, remote, sink));
    co_return Result<void>();
  }
  SPACE_CO_TRY(auto target, landing(local, remote));
  SPACE_CO_TRY(auto directory, LocalDirectory::open(target.directory));
  if (!tree) co_return co_await download_file(copy, remote, directory, target.name, there->mode);
  SPACE_CO_TRY(auto root, directory.enter(target.name));
  co_return co_await download_tree(copy, remote, std::move(root), there->mode, 0);
}

}  // namespace space::cli::copy
