// SPDX-License-Identifier: Apache-2.0
#pragma once
// The blocking half of bringing a sandbox up: record, files, control groups, a process in its jail, and its
// release, in the order that makes every prefix recoverable.

#include "lib/base/result.h"
#include "node/environment.h"
#include "node/record.h"
#include "node/slot/jail_process.h"
#include "node/slot/slot.h"

namespace space::node {

// On an error, or if this process dies, what was made stays and is found by the record. For the blocking
// pool.
Result<slot::JailProcess> make_machine(Environment& environment, SandboxRecord record,
                                       const vmm::MachineSpec& spec, const slot::Slot& slot);

// Kills all processes of a sandbox and waits for their end. Blocking; idempotent. `pidfd` is its VMM's, or
// -1. Errors: node.cgroup_busy, node.process_stuck.
Result<void> kill_machine(Environment& environment, const SandboxId& sandbox, int pidfd);

// Kills all processes of a sandbox and removes its control groups and files, whatever of them is there.
// Blocking; idempotent. Errors: those of kill_machine, os.file.
Result<void> unmake_machine(Environment& environment, const SandboxId& sandbox, int pidfd);

}  // namespace space::node
