// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs a helper program (ld.so, nft, qemu --version) to its end, without a shell, and keeps what it printed.
// Blocking: call from the blocking pool or from a one-shot command. Operator-only: neither program nor
// arguments come from a tenant or a guest. Errors: node.program_missing, node.program_timeout, node.program.

#include <chrono>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace space::node::process {

struct Run {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH when it has no slash
  std::string input;              // written to stdin; empty: /dev/null
  std::chrono::milliseconds limit{10'000};
  std::size_t max_output_bytes = 1u << 20;  // stdout and stderr together; more is read and dropped
};

struct Finished {
  int exit_code = -1;  // 128 + signal when a signal ended it
  std::string output;  // stdout and stderr as they came
};

// The child is killed when `limit` has passed.
Result<Finished> run(const Run& what);

}  // namespace space::node::process
