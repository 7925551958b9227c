// SPDX-License-Identifier: Apache-2.0
// space logs: the console of a session's sandbox.
#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>

#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/printable.h"

namespace space::cli {
using async::Task;

namespace {

struct LogsOptions {
  std::string session;
  bool follow = false;
  bool raw = false;
};

// Console bytes are the guest's: shown so that they can't steer the terminal, unless asked for as they are.
class ConsoleSink final : public http::client::BodySink {
 public:
  ConsoleSink(Context& context, bool raw) : context_(context), output_(context.pool), raw_(raw) {}

  Task<Result<void>> write(ByteView data) override {
    std::string text = rest_ + std::string(as_text(data));
    rest_.clear();
    if (!raw_) text = readable(std::move(text));
    co_return co_await output_.write(context_.world.stdio.out, as_bytes(text));
  }
  Task<Result<void>> finish() {
    return output_.write(context_.world.stdio.out,
                         as_bytes(printable_rest_ = printable(rest_, Lines::kMany)));
  }

 private:
  // Carriage returns before line ends are how a serial console ends lines.
  std::string readable(std::string text) {
    std::size_t keep = incomplete_tail(text);
    if (keep == 0 && text.ends_with('\r')) keep = 1;
    rest_ = text.substr(text.size() - keep);
    text.resize(text.size() - keep);
    std::string lines;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
      lines += text[i];
    }
    return printable(lines, Lines::kMany);
  }

  Context& context_;
  OutputWriter output_;
  bool raw_;
  std::string rest_;  // a sequence that isn't complete yet
  std::string printable_rest_;
};

Task<int> logs(Context& context, const LogsOptions& options) {
  auto request = Api::request(
      "GET", session_target(options.session) + "/logs?follow=" + (options.follow ? "true" : "false"));
  if (context.json() && !options.follow) {
    auto response = co_await context.api.client().send(std::move(request));
    if (!response.ok()) co_return context.fail(response.error());
    if (!response->ok()) co_return context.fail(Api::error_from(*response));
    context.print(boost::json::value(
        boost::json::object{{"id", options.session}, {"text", printable(response->body, Lines::kMany)}}));
    co_return kOk;
  }
  ConsoleSink sink(context, options.raw);
  auto response = co_await context.api.client().download(std::move(request), sink);
  (co_await sink.finish()).ignore("the reader has gone");
  if (!response.ok()) co_return context.fail(response.error());
  if (!response->ok()) co_return context.fail(Api::error_from(*response));
  co_return kOk;
}

}  // namespace

void add_logs_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<LogsOptions>();
  auto* command =
      app.add_subcommand("logs", "Print the console of a session's sandbox; of an ended one, the kept tail");
  command->add_option("session", options->session, "Session id or name")->required();
  command->add_flag("--follow,-f", options->follow, "Go on as more comes");
  command->add_flag("--raw", options->raw, "Control characters as they are (they can steer your terminal)");
  command->callback([options, &invocation] {
    if (invocation.format == Format::kJson && options->follow)
      throw CLI::ValidationError("--json doesn't go with --follow");
    invocation.remote = [options](Context& c) { return logs(c, *options); };
  });
}

}  // namespace space::cli
