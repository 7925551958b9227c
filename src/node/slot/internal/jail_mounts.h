// SPDX-License-Identifier: Apache-2.0
#pragma once
// The file system of a jail. Called in a new mount namespace, as root. Errors: node.jail_mount.

#include "lib/base/result.h"
#include "node/slot/jail_plan.h"

namespace space::node::slot::internal {

// Makes the plan's root this process's "/", with the binds and a minimal /dev, and forgets the old one.
Result<void> enter_root(const JailPlan& plan);

}  // namespace space::node::slot::internal
