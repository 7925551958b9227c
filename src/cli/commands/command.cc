// SPDX-License-Identifier: Apache-2.0
// space command: what runs or ran in a session.
#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>

#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/relay.h"
#include "cli/table.h"
#include "cli/target.h"

namespace space::cli {
namespace json = boost::json;
using async::Task;

namespace {

struct CommandOptions {
  std::string session;
  std::string command;
  std::string signal = "TERM";
  bool input = false;
};

std::string line_of(const json::value& command) {
  std::string line;
  const auto* argv = member(command, "argv");
  if (argv == nullptr || !argv->is_array()) return line;
  for (const auto& word : argv->get_array()) {
    if (!line.empty()) line += ' ';
    if (const auto* text = word.if_string()) line.append(text->data(), text->size());
  }
  return line;
}

std::string end_of(const json::value& command) {
  const auto* exit = member(command, "exit");
  if (exit == nullptr) return "";
  std::string text = number_of(*exit, "signal") > 0 ? "signal " + std::to_string(number_of(*exit, "signal"))
                                                    : std::to_string(number_of(*exit, "exit_code", -1));
  if (flag_of(*exit, "timed_out")) text += " (timeout)";
  if (flag_of(*exit, "out_of_memory")) text += " (out of memory)";
  return text;
}

std::string commands_target(const std::string& session) {
  return session_target(session) + "/commands";
}
std::string command_target(const CommandOptions& options) {
  return commands_target(options.session) + "/" + http::client::percent_encode(options.command);
}

Task<int> list(Context& context, const CommandOptions& options) {
  auto commands = co_await context.api.list(commands_target(options.session));
  if (!commands.ok()) co_return context.fail(commands.error());
  if (context.json()) {
    context.print(json::value(std::move(*commands)));
    co_return kOk;
  }
  Table table({"ID", "STATE", "EXIT", "PID", "STARTED", "COMMAND"});
  for (const auto& command : *commands) {
    table.row({text_of(command, "id"), text_of(command, "state"), end_of(command),
               std::to_string(number_of(command, "pid")), relative_time(text_of(command, "started_at")),
               line_of(command)});
  }
  context.print(table.text());
  co_return kOk;
}

Task<int> show(Context& context, const CommandOptions& options) {
  auto command = co_await context.api.get(command_target(options));
  if (!command.ok()) co_return context.fail(command.error());
  if (context.json()) {
    context.print(*command);
    co_return kOk;
  }
  context.print(facts({{"id", text_of(*command, "id")},
                       {"command", line_of(*command)},
                       {"state", text_of(*command, "state")},
                       {"exit", end_of(*command)},
                       {"pid", std::to_string(number_of(*command, "pid"))},
                       {"started", text_of(*command, "started_at")},
                       {"output", std::to_string(number_of(*command, "stdout_bytes")) + " bytes, errors " +
                                      std::to_string(number_of(*command, "stderr_bytes")) + " bytes"}}));
  co_return kOk;
}

Task<int> signal(Context& context, const CommandOptions& options) {
  auto number = parse_signal(options.signal);
  if (!number.ok()) co_return context.fail(number.error());
  auto done = co_await context.api.change("POST", command_target(options) + "/signal",
                                          json::object{{"signal", *number}});
  if (!done.ok()) co_return context.fail(done.error());
  if (context.json()) context.print(json::value(json::object{{"id", options.command}, {"signal", *number}}));
  co_return kOk;
}

Task<int> attach(Context& context, const CommandOptions& options) {
  RelayPlan plan;
  plan.session = options.session;
  plan.command = options.command;
  plan.target = command_target(options) + "/attach";
  plan.input = options.input ? Input::kForward : Input::kNone;
  co_return co_await relay(context, std::move(plan));
}

}  // namespace

void add_command_commands(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<CommandOptions>();
  auto* group = app.add_subcommand("command", "Commands that run or ran in a session")->require_subcommand(1);

  auto* list_command = group->add_subcommand("ls", "List the commands of a session");
  list_command->add_option("session", options->session, "Session id or name")->required();
  list_command->callback(
      [options, &invocation] { invocation.remote = [options](Context& c) { return list(c, *options); }; });

  auto add = [&](const char* name, const char* help) {
    auto* sub = group->add_subcommand(name, help);
    sub->add_option("session", options->session, "Session id or name")->required();
    sub->add_option("command", options->command, "Command id")->required();
    return sub;
  };
  add("show", "Show one command")->callback([options, &invocation] {
    invocation.remote = [options](Context& c) { return show(c, *options); };
  });
  auto* send = add("signal", "Send a signal to a command and all it started");
  send->add_option("signal", options->signal, "Number or name (default: TERM)");
  send->callback(
      [options, &invocation] { invocation.remote = [options](Context& c) { return signal(c, *options); }; });
  auto* reconnect =
      add("attach", "Reconnect to a command: its kept output, then what comes, then its exit code");
  reconnect->add_flag("--stdin,-i", options->input, "Pass standard input on");
  reconnect->callback(
      [options, &invocation] { invocation.remote = [options](Context& c) { return attach(c, *options); }; });
}

}  // namespace space::cli
