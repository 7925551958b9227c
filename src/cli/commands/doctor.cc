// SPDX-License-Identifier: Apache-2.0
// space doctor: asks the node's program what this machine can do, and shows it.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>

#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/printable.h"
#include "cli/table.h"
#include "lib/os/file.h"

extern char** environ;

namespace space::cli {
namespace json = boost::json;

namespace {

constexpr std::size_t kMaxReport = 1u << 20;

// Runs `program doctor --json` and returns its output.
Result<std::string> run(const std::string& program) {
  int pipe_fds[2];
  if (::pipe2(pipe_fds, O_CLOEXEC) != 0) return errno_error(errno, "os.file", "make a pipe");
  os::Fd reader(pipe_fds[0]);
  os::Fd writer(pipe_fds[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, writer.get(), 1);
  std::string name = program;
  std::string verb = "doctor";
  std::string flag = "--json";
  char* argv[] = {name.data(), verb.data(), flag.data(), nullptr};
  pid_t pid = 0;
  int failed = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return errno_error(failed, "cli.no_doctor", "cannot run " + program);
  writer.reset();
  std::string output;
  char buffer[16384];
  for (;;) {
    ssize_t got = ::read(reader.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    if (output.size() < kMaxReport) output.append(buffer, static_cast<std::size_t>(got));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (output.empty()) return make_error(Code::kInternal, "cli.no_doctor", program + " gave no report");
  return output;
}

std::string table_of(const json::value& report) {
  std::string out;
  const auto* checks = member(report, "checks");
  if (checks == nullptr || !checks->is_array()) return out;
  Table table({"CHECK", "STATUS", "FOUND"});
  for (const auto& check : checks->get_array())
    table.row({text_of(check, "id"), text_of(check, "status"), text_of(check, "found")});
  out = table.text();
  for (const auto& check : checks->get_array()) {
    if (text_of(check, "status") == "ok") continue;
    out += "\n" + printable(text_of(check, "id")) + ": " + printable(text_of(check, "means")) + "\n";
    if (auto mend = text_of(check, "mend"); !mend.empty()) out += "  to mend: " + printable(mend) + "\n";
  }
  return out;
}

int doctor(const World& world, Format format) {
  auto output = run(world.bin_directory + "/space-node");
  if (!output.ok()) return report(world.stdio, output.error());
  auto parsed = Api::parse(*output);
  if (!parsed.ok() || !parsed->is_object()) {
    return report(world.stdio,
                  make_error(Code::kInternal, "cli.no_doctor", "the report of space-node is not understood"));
  }
  auto& object = parsed->get_object();
  if (!object.contains("id")) object["id"] = "doctor";
  std::string text = format == Format::kJson ? json::serialize(*parsed) + "\n" : table_of(*parsed);
  os::write_all(world.stdio.out, as_bytes(text)).ignore("nobody is there to read it");
  return flag_of(*parsed, "ok") ? kOk : kFailed;
}

}  // namespace

void add_doctor_command(CLI::App& app, Invocation& invocation) {
  auto* command =
      app.add_subcommand("doctor", "Say what this machine can do for SPACE, and how to mend what it can't");
  command->callback([&invocation] { invocation.local = doctor; });
}

}  // namespace space::cli
