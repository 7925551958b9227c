// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line `space` as a function: everything but `space up`, which is src/supervise.

#include <string>
#include <vector>

#include "cli/context.h"

namespace space::cli {

// Parses `arguments` (without the program's name), does what they say, returns the exit code (exit_code.h).
// SIGPIPE must be ignored by the process. Not reentrant where terminals are concerned.
int run(const std::vector<std::string>& arguments, const World& world);

}  // namespace space::cli
