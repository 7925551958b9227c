// SPDX-License-Identifier: Apache-2.0
#pragma once
// Starts a service process with exactly what it may have: descriptors 0-2 and those listed from 3 on, a user
// of its own, no capabilities, a session of its own, the default signal handling, and death with its parent.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/os/fd.h"

namespace space::supervise {

inline constexpr int kFirstDescriptor = 3;

// Value type.
struct ChildSpec {
  std::string name;                    // "space-node"
  std::string program;                 // absolute path; need not be reachable for `user`, only runnable
  std::vector<std::string> arguments;  // without the program
  std::optional<uid_t> user;           // absent: stays root with what it has
  std::vector<int> descriptors;        // borrowed; the child sees them as 3, 4, ...
};

struct StartedChild {
  pid_t pid = 0;
  os::Fd output;  // what it writes to standard output and standard error, non-blocking
};

// Returns once the program runs. Call from the thread that lives as long as the children shall: the kernel
// ends them with it. Precondition: the process has one thread. Errors: supervise.spawn, with what went wrong
// in the child.
Result<StartedChild> start_child(const ChildSpec& spec);

}  // namespace space::supervise
