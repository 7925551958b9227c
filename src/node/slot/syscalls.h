// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a jailed VMM may ask of the kernel. Data with reasons, found by watching real runs (boot, disk,
// console, channel, stop, cont, shutdown); tests run a guest under it. QEMU adds a filter of its own
// (-sandbox) on top.

#include <optional>
#include <span>

#include "lib/base/result.h"
#include "lib/os/confine/syscall_policy.h"
#include "node/slot/jail_plan.h"

namespace space::node::slot {

// Everything QEMU's microvm with our devices does, under TCG and KVM.
extern const std::span<const os::confine::SyscallRule> kQemuCalls;
// What libraries try and do without: answered as if the kernel didn't have it.
extern const std::span<const os::confine::SyscallRule> kQemuAbsentCalls;

// Nothing for kNone. Errors: confine.policy.
Result<std::optional<os::confine::SyscallPolicy>> policy_for(SyscallProfile profile);

}  // namespace space::node::slot
