// SPDX-License-Identifier: Apache-2.0
#pragma once
// A helper process whose output is followed while it runs. Killed with its object. Errors: node.program,
// node.program_missing, node.program_timeout.

#include <chrono>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/os/fd.h"
#include "node/process/identity.h"

namespace space::node::process {

// Resource type: move only.
class Child {
 public:
  Child(Child&&) noexcept = default;
  Child& operator=(Child&&) = delete;
  ~Child();

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Its stdout, non-blocking; once.
  os::Fd take_output() { return std::move(output_); }
  // Blocking; kills it when `limit` has passed. Errors: node.program_timeout.
  Result<Exit> wait(std::chrono::milliseconds limit);

 private:
  friend Result<Child> start_child(const std::vector<std::string>& argv);
  Child() = default;
  pid_t pid_ = 0;
  os::Fd pidfd_;  // invalid once reaped
  os::Fd output_;
};

// stdin is empty, stderr is ours. argv[0] is looked up in PATH when it has no slash.
Result<Child> start_child(const std::vector<std::string>& argv);

}  // namespace space::node::process
