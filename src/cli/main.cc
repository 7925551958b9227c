// SPDX-License-Identifier: Apache-2.0
#include "cli/main.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/asio/co_spawn.hpp>

#include "cli/exit_code.h"
#include "lib/os/file.h"

namespace space::cli {
namespace {

void put(int fd, const std::string& text) {
  os::write_all(fd, as_bytes(text)).ignore("nobody is there to read it");
}

// Options of all commands, also behind a command's name.
void add_globals(CLI::App& app, Invocation& invocation) {
  app.add_option("--url", invocation.flags.url,
                 "The server (default: SPACE_URL, the configuration file, " + std::string(kDefaultUrl) + ")");
  app.add_option("--key-file", invocation.flags.key_file,
                 "File that holds the API key (default: SPACE_KEY, the configuration file)");
  app.add_flag_callback(
      "--json", [&invocation] { invocation.format = Format::kJson; },
      "Print JSON: lists as arrays, the rest as objects with an id");
}

// CLI11 looks at options of the parent only where a command lets it.
void fall_through(CLI::App& app) {
  for (CLI::App* sub : app.get_subcommands({})) {
    sub->fallthrough();
    fall_through(*sub);
  }
}

// `space up` is handled before this parser; here it stands for the help alone.
void describe_up(CLI::App& app) {
  app.add_subcommand(
      "up",
      "Start the platform on this machine: space up --data DIR --listen HOST:PORT (see space up --help)");
}

// The words behind the first "--" belong to the command to run and are none of the parser's business.
std::vector<std::string> split_command(std::vector<std::string> arguments, Invocation& invocation) {
  auto mark = std::find(arguments.begin(), arguments.end(), "--");
  if (mark == arguments.end()) return arguments;
  auto verb = std::find_if(arguments.begin(), mark, [](const std::string& word) { return word == "exec"; });
  if (verb == mark) return arguments;
  invocation.command.emplace(mark + 1, arguments.end());
  arguments.erase(mark, arguments.end());
  return arguments;
}

async::Task<void> run_remote(const Invocation& invocation, Context& context, int& code) {
  code = co_await invocation.remote(context);
}

int run_with_server(const Invocation& invocation, const World& world) {
  auto settings = load_settings(invocation.flags, world.environment);
  if (!settings.ok()) return report(world.stdio, settings.error());
  http::client::Options options;
  options.max_body_bytes = 64u << 20;  // a listing of a large directory
  options.headers.push_back({"User-Agent", "space/" SPACE_VERSION});
  if (!settings->key.empty()) options.headers.push_back({"Authorization", "Bearer " + settings->key});
  async::Loop loop(1);
  os::SystemRandom random;
  http::client::Client client(loop.get_executor(), settings->endpoint, std::move(options));
  Api api(client, random);
  async::BlockingPool pool(3);
  Context context{world, invocation.format, loop, pool, api, random};
  int code = kFailed;
  boost::asio::co_spawn(loop, run_remote(invocation, context, code), [](std::exception_ptr error) {
    if (error) std::rethrow_exception(error);
  });
  loop.run();
  return code;
}

}  // namespace

int run(const std::vector<std::string>& arguments, const World& world) {
  Invocation invocation;
  CLI::App app("SPACE runs agents and other untrusted code in disposable microVMs.", "space");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Print the help of every command");
  app.footer(
      "The server and the key come from --url and --key-file, else from SPACE_URL and SPACE_KEY, else from\n"
      "~/.config/space/config.toml (url, key, key_file).");
  add_globals(app, invocation);
  describe_up(app);
  add_session_commands(app, invocation);
  add_exec_commands(app, invocation);
  add_command_commands(app, invocation);
  add_cp_command(app, invocation);
  add_fs_commands(app, invocation);
  add_port_forward_command(app, invocation);
  add_logs_command(app, invocation);
  add_template_commands(app, invocation);
  add_node_commands(app, invocation);
  add_doctor_command(app, invocation);
  fall_through(app);

  std::vector<std::string> words = split_command(arguments, invocation);
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    put(world.stdio.out, app.help());
    return kOk;
  } catch (const CLI::CallForAllHelp&) {
    put(world.stdio.out, app.help("", CLI::AppFormatMode::All));
    return kOk;
  } catch (const CLI::ParseError& error) {
    return report(world.stdio, make_error(Code::kInvalidArgument, "cli.usage", error.what()));
  }
  if (invocation.local) return invocation.local(world, invocation.format);
  if (invocation.remote) return run_with_server(invocation, world);
  return report(world.stdio, make_error(Code::kInvalidArgument, "cli.usage", "nothing to do"));
}

}  // namespace space::cli
