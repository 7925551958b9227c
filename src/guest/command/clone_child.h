// SPDX-License-Identifier: Apache-2.0
#pragma once
// clone3(2) as posix_spawn uses clone: the child shares the daemon's memory and runs `child` on its own small
// stack while the calling thread waits in the kernel until the child has executed another program or exited.
// Compared with fork(2) nothing of the daemon is copied, and the child starts inside its cgroup without being
// moved there.

#include <sys/types.h>

namespace space::guest {

// Runs in the child; must end in execve(2) or _exit(2). It shares memory with the daemon: no allocation, no
// locks.
using ChildMain = void (*)(void* argument);

// Blocks the calling thread as said above, and uses 32 KiB of its stack for the child. `cgroup` is a
// directory descriptor of a cgroup v2, or -1. `pid_out` holds the child's number before the child runs, so
// that another thread that reaps it knows it. Signals must be blocked. Returns the child's pid, or a negated
// errno (-EAGAIN when the cgroup's process limit is reached).
pid_t clone_child(ChildMain child, void* argument, int cgroup, pid_t* pid_out);

}  // namespace space::guest
