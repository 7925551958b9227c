// SPDX-License-Identifier: Apache-2.0
#pragma once
// posix_spawn with clean signals, without a shell.

#include <sys/types.h>

#include <string>
#include <vector>

#include "lib/base/result.h"

namespace space::node::process {

struct Streams {
  int input = -1;
  int output = -1;
  int error = -1;  // -1: as here
};

// Everything else that isn't close-on-exec is inherited: our descriptors all are. Errors:
// node.program_missing, node.program.
Result<pid_t> spawn(const std::vector<std::string>& argv, const Streams& streams);

}  // namespace space::node::process
