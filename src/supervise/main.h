// SPDX-License-Identifier: Apache-2.0
#pragma once
// `space up`.

#include <string>
#include <vector>

namespace space::supervise {

// `arguments` without "space up". Runs until SIGTERM or SIGINT; the exit code: 0 after an orderly stop, 1
// when it can't start or go on, 2 for a wrong command line or configuration. Standard output gets "ready URL"
// and nothing else.
int run(const std::vector<std::string>& arguments);

}  // namespace space::supervise
