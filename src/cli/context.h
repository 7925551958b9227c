// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a command gets to work with, and what the command line asked for.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/api.h"
#include "cli/settings.h"
#include "cli/stdio.h"
#include "lib/async/blocking_pool.h"

namespace CLI {
class App;
}

namespace space::cli {

// The world outside, as arguments, so that tests can give another.
struct World {
  Stdio stdio;
  Lookup environment = nullptr;
  std::string bin_directory;  // where the sibling programs are
};

enum class Format : unsigned char { kHuman, kJson };

// Resource type; one loop; lives as long as the command runs.
struct Context {
  const World& world;
  Format format;
  async::Loop& loop;
  async::BlockingPool& pool;  // for input, output and other blocking calls of one command: three threads
  Api& api;
  os::Random& random;

  [[nodiscard]] bool json() const { return format == Format::kJson; }
  // On standard output. A reader that has gone is no error.
  void print(std::string_view text) const;
  // One JSON document on a line of its own.
  void print(const boost::json::value& value) const;
  // A line "space: text" on standard error.
  void note(std::string_view text) const;
  // Reports `error` with what to do about it; returns the exit code (exit_code.h).
  int fail(const Error& error) const;
};

// The same report without a server in the picture.
int report(const Stdio& stdio, const Error& error, const std::string& url = {});

// The result of parsing. `remote` needs a server, `local` doesn't; exactly one is set.
struct Invocation {
  Flags flags;
  Format format = Format::kHuman;
  std::optional<std::vector<std::string>> command;  // what stood behind "--"
  std::function<async::Task<int>(Context&)> remote;
  std::function<int(const World&, Format)> local;
};

// Each adds its commands; their callbacks fill the invocation.
void add_session_commands(CLI::App& app, Invocation& invocation);
void add_exec_commands(CLI::App& app, Invocation& invocation);
void add_command_commands(CLI::App& app, Invocation& invocation);
void add_cp_command(CLI::App& app, Invocation& invocation);
void add_fs_commands(CLI::App& app, Invocation& invocation);
void add_port_forward_command(CLI::App& app, Invocation& invocation);
void add_logs_command(CLI::App& app, Invocation& invocation);
void add_template_commands(CLI::App& app, Invocation& invocation);
void add_node_commands(CLI::App& app, Invocation& invocation);  // and operation, version
void add_doctor_command(CLI::App& app, Invocation& invocation);

}  // namespace space::cli
