// SPDX-License-Identifier: Apache-2.0
#pragma once
// What space-link gives up before it reads the first hostile byte: every capability, every file, every new
// socket, every new process. Posture: internal.

#include <span>

#include "lib/base/result.h"
#include "lib/os/confine/syscall_policy.h"

namespace space::link {

// The system calls that link makes while it serves; anything else is refused.
Result<os::confine::SyscallPolicy> serving_policy();

// Closes every descriptor but the standard ones and `keep`, drops capabilities, forbids core dumps and new
// privileges, raises the descriptor limit to what 1024 sandboxes need as far as allowed. First thing in
// main().
Result<void> give_up_privileges(std::span<const int> keep);

// Installs serving_policy() and then tries what it must refuse: a link that could still open a file or a
// socket does not serve. Last thing before the loop runs. Errors: link.not_confined.
Result<void> confine();

}  // namespace space::link
