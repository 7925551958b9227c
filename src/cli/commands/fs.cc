// SPDX-License-Identifier: Apache-2.0
// space fs: look at and change the files of a session.
#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>

#include "cli/context.h"
#include "cli/copy/copy.h"
#include "cli/exit_code.h"
#include "cli/printable.h"
#include "cli/table.h"

namespace space::cli {
namespace json = boost::json;
using async::Task;
using copy::files_target;

namespace {

struct FsOptions {
  std::string session;
  std::string path;
  std::string other;  // the target of mv, the local file of put
  std::string mode = "0755";
  bool recursive = false;
  bool parents = false;
  bool no_follow = false;
  bool overwrite = false;
};

// Every object that is printed has an id; a file's is its path.
json::value with_id(const json::value& file) {
  json::object out;
  out["id"] = text_of(file, "path");
  if (file.is_object()) {
    for (const auto& [name, value] : file.get_object()) out[name] = value;
  }
  return out;
}

Task<int> ls(Context& context, const FsOptions& options) {
  auto listing = co_await context.api.list(files_target(options.session, "/list", {{"path", options.path}}));
  if (!listing.ok()) co_return context.fail(listing.error());
  if (context.json()) {
    json::array files;
    for (const auto& file : *listing) files.push_back(with_id(file));
    context.print(json::value(std::move(files)));
    co_return kOk;
  }
  Table table({"MODE", "OWNER", "SIZE", "MODIFIED", "NAME"});
  for (const auto& file : *listing) {
    std::string name = text_of(file, "path");
    std::string kind = text_of(file, "kind");
    if (kind == "directory") name += "/";
    if (kind == "symlink") name += " -> " + text_of(file, "target");
    if (kind != "directory" && kind != "symlink" && kind != "regular") name += " (" + kind + ")";
    table.row({text_of(file, "mode"),
               std::to_string(number_of(file, "uid")) + ":" + std::to_string(number_of(file, "gid")),
               human_size(static_cast<std::uint64_t>(number_of(file, "size"))), text_of(file, "modified_at"),
               name});
  }
  context.print(table.text());
  co_return kOk;
}

Task<int> stat(Context& context, const FsOptions& options) {
  auto file = co_await context.api.get(files_target(
      options.session, "/stat", {{"path", options.path}, {"follow", options.no_follow ? "false" : "true"}}));
  if (!file.ok()) co_return context.fail(file.error());
  if (context.json()) {
    context.print(with_id(*file));
    co_return kOk;
  }
  context.print(facts(
      {{"path", text_of(*file, "path")},
       {"kind", text_of(*file, "kind")},
       {"target", text_of(*file, "target")},
       {"size", std::to_string(number_of(*file, "size")) + " bytes"},
       {"mode", text_of(*file, "mode")},
       {"owner", std::to_string(number_of(*file, "uid")) + ":" + std::to_string(number_of(*file, "gid"))},
       {"modified", text_of(*file, "modified_at")}}));
  co_return kOk;
}

Task<int> cat(Context& context, const FsOptions& options) {
  auto request = Api::request("GET", files_target(options.session, "", {{"path", options.path}}));
  class Sink final : public http::client::BodySink {
   public:
    explicit Sink(Context& context) : context_(context), output_(context.pool) {}
    Task<Result<void>> write(ByteView data) override { return output_.write(context_.world.stdio.out, data); }

   private:
    Context& context_;
    OutputWriter output_;
  } sink(context);
  auto response = co_await context.api.client().download(std::move(request), sink);
  if (!response.ok()) co_return context.fail(response.error());
  if (!response->ok()) co_return context.fail(Api::error_from(*response));
  co_return kOk;
}

Task<int> put(Context& context, const FsOptions& options) {
  copy::Copy copy{context, options.session, copy::Progress(context.world.stdio.err)};
  auto done = co_await copy::upload(copy, options.other.empty() ? "-" : options.other, options.path,
                                    copy::Depth::kSingle);
  copy.progress.clear();
  if (!done.ok()) co_return context.fail(done.error());
  if (context.json())
    context.print(json::value(json::object{{"id", options.path}, {"bytes", copy.summary.bytes}}));
  co_return kOk;
}

Task<int> done(Context& context, Result<json::value> answer, const std::string& path) {
  if (!answer.ok()) co_return context.fail(answer.error());
  if (context.json()) context.print(json::value(json::object{{"id", path}}));
  co_return kOk;
}

Task<int> rm(Context& context, const FsOptions& options) {
  auto answer = co_await context.api.change(
      "DELETE",
      files_target(options.session, "",
                   {{"path", options.path}, {"recursive", options.recursive ? "true" : "false"}}),
      std::nullopt);
  co_return co_await done(context, std::move(answer), options.path);
}

Task<int> mkdir(Context& context, const FsOptions& options) {
  auto answer = co_await context.api.change(
      "POST", files_target(options.session, "/mkdir", {}),
      json::object{{"path", options.path}, {"mode", options.mode}, {"parents", options.parents}});
  co_return co_await done(context, std::move(answer), options.path);
}

Task<int> mv(Context& context, const FsOptions& options) {
  auto answer = co_await context.api.change(
      "POST", files_target(options.session, "/move", {}),
      json::object{{"from", options.path}, {"to", options.other}, {"overwrite", options.overwrite}});
  co_return co_await done(context, std::move(answer), options.other);
}

// Prints events until the stream ends, which is always an error: a watch has no end of its own.
Task<int> watch(Context& context, const FsOptions& options) {
  auto upgrade = co_await context.api.client().upgrade(
      "/v1" + files_target(options.session, "/watch",
                           {{"path", options.path}, {"recursive", options.recursive ? "true" : "false"}}));
  if (!upgrade.ok()) co_return context.fail(upgrade.error());
  if (upgrade->socket == nullptr) co_return context.fail(Api::error_from(upgrade->declined));
  for (;;) {
    auto message = co_await upgrade->socket->read();
    if (!message.ok()) co_return context.fail(message.error());
    if (!message->has_value())
      co_return context.fail(make_error(Code::kUnavailable, "cli.watch_ended", "the server ended the watch"));
    auto frame = Api::parse(as_text((*message)->data));
    if (!frame.ok()) co_return context.fail(frame.error());
    std::string type = text_of(*frame, "type");
    if (type == "error") {
      const auto* error = member(*frame, "error");
      co_return context.fail(Api::error_from(error == nullptr ? json::value() : *error));
    }
    if (type == "watching" && !context.json()) context.note("watching " + options.path + "; Ctrl-C ends it");
    if (type != "event") continue;
    if (context.json()) {
      context.print(with_id(*frame));
    } else {
      context.print(printable(text_of(*frame, "kind")) + "  " + printable(text_of(*frame, "path")) +
                    (flag_of(*frame, "directory") ? "/" : "") + "\n");
    }
  }
}

}  // namespace

void add_fs_commands(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<FsOptions>();
  auto* group = app.add_subcommand("fs", "Files of a session")->require_subcommand(1);
  auto add = [&](const char* name, const char* help, Task<int> (*action)(Context&, const FsOptions&)) {
    auto* sub = group->add_subcommand(name, help);
    sub->add_option("session", options->session, "Session id or name")->required();
    sub->add_option("path", options->path, "Absolute path in the session")->required();
    sub->callback([options, action, &invocation] {
      invocation.remote = [options, action](Context& c) { return action(c, *options); };
    });
    return sub;
  };
  add("ls", "List a directory", ls);
  add("stat", "Show what a path is", stat)
      ->add_flag("--no-follow,-P", options->no_follow, "A link itself, not what it points to");
  add("cat", "Print a file", cat);
  add("put", "Write a file from standard input or a local file, whole or not at all", put)
      ->add_option("file", options->other, "Local file (default: standard input)");
  add("rm", "Remove a file or directory", rm)
      ->add_flag("--recursive,-r", options->recursive, "A directory with all that is in it");
  auto* make = add("mkdir", "Make a directory", mkdir);
  make->add_flag("--parents,-p", options->parents, "The ones above it too; one that is there is fine");
  make->add_option("--mode,-m", options->mode, "Permission bits (default: 0755)");
  auto* move = add("mv", "Move or rename", mv);
  move->add_option("target", options->other, "New absolute path")->required();
  move->add_flag("--overwrite,-f", options->overwrite, "Replace what is there");
  add("watch", "Print changes as they happen", watch)
      ->add_flag("--recursive,-r", options->recursive, "Directories below too");
}

}  // namespace space::cli
