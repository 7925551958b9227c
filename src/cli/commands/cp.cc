// SPDX-License-Identifier: Apache-2.0
// space cp: files and trees in and out of a session.
#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>

#include "cli/context.h"
#include "cli/copy/copy.h"
#include "cli/exit_code.h"
#include "cli/target.h"

namespace space::cli {
using async::Task;

namespace {

struct CpOptions {
  std::string source;
  std::string target;
  bool recursive = false;
};

Error usage(const std::string& message) {
  return make_error(Code::kInvalidArgument, "cli.usage", message);
}

Task<Result<void>> run(copy::Copy& copy, Place from, Place to, copy::Depth depth) {
  if (from.session) return copy::download(copy, from.path, to.path, depth);
  return copy::upload(copy, from.path, to.path, depth);
}

Task<int> cp(Context& context, const CpOptions& options) {
  auto from = parse_place(options.source);
  if (!from.ok()) co_return context.fail(from.error());
  auto to = parse_place(options.target);
  if (!to.ok()) co_return context.fail(to.error());
  if (from->session && to->session)
    co_return context.fail(usage("one side must be local; copy in two steps"));
  if (!from->session && !to->session)
    co_return context.fail(usage("one side must be in a session: SESSION:/PATH"));
  copy::Copy copy{context, from->session ? *from->session : *to->session,
                  copy::Progress(context.world.stdio.err)};
  auto done =
      co_await run(copy, *from, *to, options.recursive ? copy::Depth::kRecursive : copy::Depth::kSingle);
  copy.progress.clear();
  if (!done.ok()) co_return context.fail(done.error());
  if (context.json() && !to->stream()) {
    context.print(boost::json::value(boost::json::object{{"id", copy.session},
                                                         {"files", copy.summary.files},
                                                         {"directories", copy.summary.directories},
                                                         {"bytes", copy.summary.bytes},
                                                         {"skipped", copy.summary.skipped}}));
  }
  co_return kOk;
}

}  // namespace

void add_cp_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<CpOptions>();
  auto* command = app.add_subcommand(
      "cp", "Copy files into or out of a session: space cp FILE SESSION:/PATH, space cp SESSION:/PATH FILE");
  command->footer(
      "A path in a session is absolute. \"-\" is standard input or output. Files arrive whole or not at "
      "all.\n"
      "In a tree, links and special files are skipped, with a note.");
  command->add_option("source", options->source, "Where from")->required();
  command->add_option("target", options->target, "Where to")->required();
  command->add_flag("--recursive,-r", options->recursive, "Directories with all that is in them");
  command->callback(
      [options, &invocation] { invocation.remote = [options](Context& c) { return cp(c, *options); }; });
}

}  // namespace space::cli
