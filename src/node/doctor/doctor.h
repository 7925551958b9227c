// SPDX-License-Identifier: Apache-2.0
#pragma once
// `space-node doctor [--json]`: what this machine can do for sandboxes, found out by doing it.
//
// Every check tries the real thing (makes a tap, loads a rule, mounts a file system, runs a guest) in
// namespaces of its own, and leaves nothing behind. Exit status: 0 when nothing fails, 1 when something does,
// 2 for wrong arguments.

#include <string>
#include <vector>

namespace space::node::doctor {

int doctor_main(const std::vector<std::string>& arguments);

}  // namespace space::node::doctor
