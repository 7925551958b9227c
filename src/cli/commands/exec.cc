// SPDX-License-Identifier: Apache-2.0
// space exec, space shell: run a command in a session.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/printable.h"
#include "cli/relay.h"
#include "cli/target.h"
#include "cli/terminal.h"
#include "lib/base/size.h"

namespace space::cli {
namespace json = boost::json;
using async::Task;

namespace {

struct ExecOptions {
  std::string session;
  std::vector<std::string> argv;
  std::vector<std::string> env;
  std::string cwd;
  std::string user;
  std::string timeout;
  std::string attach;
  bool tty = false;
  bool interactive = false;
  bool no_stdin = false;
  bool detach = false;
};

Error usage(const std::string& message) {
  return make_error(Code::kInvalidArgument, "cli.usage", message);
}

// The first frame of an exec, and the body that starts a detached command.
Result<json::object> request_of(const ExecOptions& options, const World& world, Input input) {
  json::object request;
  json::array argv;
  for (const auto& word : options.argv) {
    if (!is_utf8(word)) return usage("an argument of the command is not UTF-8: " + escape(word));
    argv.emplace_back(word);
  }
  request["argv"] = std::move(argv);
  json::object env;
  for (const auto& text : options.env) {
    SPACE_TRY(auto variable, parse_variable(text, world.environment));
    if (!is_utf8(variable.second)) return usage("the value of " + escape(variable.first) + " is not UTF-8");
    env[variable.first] = variable.second;
  }
  if (!env.empty()) request["env"] = std::move(env);
  if (!options.cwd.empty()) request["cwd"] = options.cwd;
  if (!options.user.empty()) request["user"] = options.user;
  if (!options.timeout.empty()) {
    auto limit = parse_duration(options.timeout);
    if (!limit.ok()) return usage("--timeout: " + limit.error().message);
    request["timeout_ms"] = limit->count();
  }
  if (options.tty) {
    auto size = terminal_size(world.stdio.in, world.stdio.out);
    const char* term = world.environment("TERM");
    request["pty"] = json::object{{"rows", size.rows},
                                  {"cols", size.cols},
                                  {"term", term == nullptr || *term == '\0' ? "xterm" : term}};
  }
  if (input == Input::kForward) request["stdin"] = true;
  return request;
}

Task<int> start_detached(Context& context, const ExecOptions& options) {
  auto request = request_of(options, context.world, Input::kNone);
  if (!request.ok()) co_return context.fail(request.error());
  (*request)["detached"] = true;
  auto command =
      co_await context.api.change("POST", session_target(options.session) + "/commands", std::move(*request));
  if (!command.ok()) {
    context.fail(command.error());
    co_return exit_code_of_failed_command(command.error());
  }
  if (context.json()) {
    context.print(*command);
  } else {
    context.print(printable(text_of(*command, "id")) + "\n");
  }
  co_return kOk;
}

Task<int> run_exec(Context& context, const ExecOptions& options) {
  RelayPlan plan;
  plan.session = options.session;
  bool forward =
      !options.no_stdin && (options.interactive || options.tty || carries_input(context.world.stdio.in));
  plan.input = forward ? Input::kForward : Input::kNone;
  if (!options.attach.empty()) {
    plan.command = options.attach;
    plan.target = session_target(options.session) + "/commands/" +
                  http::client::percent_encode(options.attach) + "/attach";
    if (!options.interactive && !options.tty) plan.input = Input::kNone;
    co_return co_await relay(context, std::move(plan));
  }
  if (options.detach) co_return co_await start_detached(context, options);
  auto request = request_of(options, context.world, plan.input);
  if (!request.ok()) co_return context.fail(request.error());
  plan.target = session_target(options.session) + "/exec";
  plan.first_frame = json::serialize(*request);
  plan.screen = options.tty ? Screen::kTerminal : Screen::kPlain;
  co_return co_await relay(context, std::move(plan));
}

Task<int> run_shell(Context& context, ExecOptions options) {
  options.tty = ::isatty(context.world.stdio.in) == 1;
  options.interactive = true;
  // A login shell: bash where it is, else sh.
  options.argv = {"/bin/sh", "-c",
                  "if command -v bash >/dev/null 2>&1; then exec bash -l; else exec sh -l; fi"};
  co_return co_await run_exec(context, options);
}

}  // namespace

void add_exec_commands(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<ExecOptions>();
  auto* exec =
      app.add_subcommand("exec", "Run a command in a session: space exec SESSION -- COMMAND ARGUMENT...");
  exec->footer(
      "Output, errors and the exit code are the command's. Other codes: 124 timeout, 125 the command never "
      "started or its\n"
      "end is not known, 126 not executable, 127 not found, 128+n ended by signal n.\n"
      "Ctrl-C interrupts the command, a second one kills it.");
  exec->add_option("session", options->session, "Session id or name")->required();
  exec->add_option("--cwd,-w", options->cwd, "Directory to run in (default: the user's home)");
  exec->add_option("--env,-e", options->env, "NAME=VALUE, or NAME to pass yours on; repeatable")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  exec->add_option("--user,-u", options->user, "User name or number (default: root)");
  exec->add_option("--timeout", options->timeout,
                   "Kill the command and all it started after this time: 90s, 15m (default: never)");
  exec->add_flag("--tty,-t", options->tty, "Give the command a terminal");
  exec->add_flag("--stdin,-i", options->interactive,
                 "Pass standard input on; a pipe or file is passed on anyway");
  exec->add_flag("--no-stdin,-n", options->no_stdin, "Don't pass standard input on");
  exec->add_flag("--detach,-d", options->detach, "Start the command, print its id and leave it running");
  exec->add_option("--attach", options->attach, "Reconnect to this command instead of starting one");
  exec->callback([options, &invocation] {
    if (invocation.command) options->argv = *invocation.command;
    if (options->attach.empty() && options->argv.empty()) {
      throw CLI::ValidationError("put the command behind --: space exec SESSION -- COMMAND ARGUMENT...");
    }
    if (!options->attach.empty() && (!options->argv.empty() || options->detach)) {
      throw CLI::ValidationError("--attach goes with neither a new command nor --detach");
    }
    if (options->detach && (options->interactive || options->tty))
      throw CLI::ValidationError("--detach goes with neither --stdin nor --tty");
    invocation.remote = [options](Context& context) { return run_exec(context, *options); };
  });

  auto shell_options = std::make_shared<ExecOptions>();
  auto* shell =
      app.add_subcommand("shell", "Open a login shell in a session; ~. at the beginning of a line leaves it");
  shell->add_option("session", shell_options->session, "Session id or name")->required();
  shell->add_option("--user,-u", shell_options->user, "User name or number (default: root)");
  shell->add_option("--cwd,-w", shell_options->cwd, "Directory to start in (default: the user's home)");
  shell->add_option("--env,-e", shell_options->env, "NAME=VALUE; repeatable")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  shell->callback([shell_options, &invocation] {
    invocation.remote = [shell_options](Context& context) { return run_shell(context, *shell_options); };
  });
}

}  // namespace space::cli
