// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a process takes from itself besides capabilities and system calls: new privileges, core dumps,
// descriptors that it was not meant to inherit, resources. All of it lasts until the process ends and is
// inherited by children (except the parent-death signal and, across execve, the dumpable flag).
// Async-signal-safe on success, so usable between fork and execve. Posture: internal. Errors:
// confine.process.

#include <sys/resource.h>

#include <csignal>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/base/result.h"

namespace space::os::confine {

// no_new_privs: set-user-id programs and file capabilities give nothing any more.
Result<void> forbid_new_privileges();

// No core file (limit 0, hard), and the process is not dumpable: others of its user can't read its memory or
// attach to it, and /proc/self belongs to root. Call after changing user, which sets the flag back.
Result<void> forbid_core_dumps();

// One resource limit with what it is for. Soft and hard become `value`.
struct ResourceLimit {
  int resource;  // RLIMIT_*
  rlim_t value;
  std::string_view reason;
};
// A value above the present hard limit is lowered to it when the process may not raise it.
Result<void> limit_resources(std::span<const ResourceLimit> limits);

// Closes every descriptor except those in `keep`, in any order. Say 0, 1 and 2 if they are to stay.
Result<void> close_descriptors_except(std::span<const int> keep);

// The kernel sends `signal` to this process when its parent thread ends. `parent` is the pid that the caller
// knew before fork: when it is no longer the parent, that is an error, since the signal would never come. 0:
// don't check.
Result<void> die_with_parent(int signal, pid_t parent = 0);

}  // namespace space::os::confine
