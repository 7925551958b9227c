// SPDX-License-Identifier: Apache-2.0
#pragma once
// The jail mode of space-node: `space-node jail`, started by start_jail() only, in namespaces of its own.
//
// Waits for the word on the control descriptor, gives up everything that the plan does not grant, and
// executes the VMM. Order matters: mounts, /dev, pivot_root, limits, descriptors, bounding set, user,
// capabilities, system calls, and then nothing but execve. Does not return on success.

namespace space::node::slot {

// Returns the exit status after a failure, which it has reported on the control descriptor.
int jail_main();

}  // namespace space::node::slot
