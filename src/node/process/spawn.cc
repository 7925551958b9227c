// SPDX-License-Identifier: Apache-2.0
#include "node/process/spawn.h"

#include <spawn.h>

#include <cerrno>
#include <csignal>

extern char** environ;

namespace space::node::process {
namespace {

struct Actions {
  Actions() { ::posix_spawn_file_actions_init(&raw); }
  ~Actions() { ::posix_spawn_file_actions_destroy(&raw); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;
  posix_spawn_file_actions_t raw;
};

struct Attributes {
  Attributes() {
    ::posix_spawnattr_init(&raw);
    sigset_t none;
    sigset_t reset;
    ::sigemptyset(&none);
    ::sigfillset(&reset);
    ::posix_spawnattr_setsigmask(&raw, &none);
    ::posix_spawnattr_setsigdefault(&raw, &reset);
    ::posix_spawnattr_setflags(&raw, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Attributes() { ::posix_spawnattr_destroy(&raw); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  posix_spawnattr_t raw;
};

}  // namespace

Result<pid_t> spawn(const std::vector<std::string>& arguments, const Streams& streams) {
  Actions actions;
  ::posix_spawn_file_actions_adddup2(&actions.raw, streams.input, 0);
  ::posix_spawn_file_actions_adddup2(&actions.raw, streams.output, 1);
  if (streams.error >= 0) ::posix_spawn_file_actions_adddup2(&actions.raw, streams.error, 2);
  Attributes attributes;
  std::vector<char*> argv;
  for (const auto& argument : arguments)
    argv.push_back(const_cast<char*>(argument.c_str()));  // SAFETY: exec only reads
  argv.push_back(nullptr);
  pid_t pid = 0;
  int failed = ::posix_spawnp(&pid, argv[0], &actions.raw, &attributes.raw, argv.data(), environ);
  if (failed != 0) {
    return errno_error(failed, failed == ENOENT ? "node.program_missing" : "node.program",
                       "cannot run " + arguments[0]);
  }
  return pid;
}

}  // namespace space::node::process
