// SPDX-License-Identifier: Apache-2.0
// `space`: the command line, and with `up` the supervisor of the platform's processes.
#include <csignal>
#include <cstdlib>

#include "cli/main.h"
#include "supervise/main.h"
#include "supervise/siblings.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  if (!arguments.empty() && arguments.front() == "up") {
    return space::supervise::run({arguments.begin() + 1, arguments.end()});
  }
  space::cli::World world;
  world.environment = [](const char* name) -> const char* { return std::getenv(name); };
  if (auto directory = space::supervise::own_directory(); directory.ok()) world.bin_directory = *directory;
  return space::cli::run(arguments, world);
}
