// SPDX-License-Identifier: Apache-2.0
#pragma once
// Starts a program as another user, in its own session, with given standard streams.

#include <sys/types.h>

#include <atomic>
#include <string>
#include <vector>

#include "guest/command/users.h"
#include "lib/base/result.h"

namespace space::guest {

struct SpawnPlan {
  std::vector<std::string> argv;         // not empty
  std::vector<std::string> environment;  // NAME=value
  std::vector<std::string> candidates;   // files to try, in order
  std::string cwd;                       // "" means / when `home` can't be entered
  std::string home;
  User user;
  int stdio[3] = {-1, -1, -1};        // descriptors above 2, open until spawn() returns
  bool controlling_terminal = false;  // stdio[0] is a terminal that becomes the session's
  int cgroup = -1;                    // directory of a cgroup v2, or -1
};

// Blocking (see clone_child.h). `pid` is set as soon as the child exists. The child's resources are reset to
// what a login gives: no signal ignored or blocked, normal scheduling, umask 022, oom_score_adj 0, 1024
// descriptors. Errors: guest.command_not_found, guest.command_not_executable, guest.no_directory,
// guest.permission_denied, guest.argument_list_too_long, guest.too_many_processes, guest.spawn_failed.
Result<pid_t> spawn(const SpawnPlan& plan, std::atomic<pid_t>& pid);

}  // namespace space::guest
