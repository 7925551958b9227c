// SPDX-License-Identifier: Apache-2.0
#pragma once
// Remembers the service processes on disk, so that a start after a crash can make sure that none of the old
// ones lives.
//
// They die with their supervisor (parent-death signal), but that takes a moment, in which two of a kind must
// not meet. A process is known by pid, start time and boot.

#include <sys/types.h>

#include <string>
#include <vector>

#include "lib/base/result.h"

namespace space::supervise {

class ChildrenFile {
 public:
  explicit ChildrenFile(std::string path) : path_(std::move(path)) {}

  // Replaces what is remembered. Pids that are gone are left out.
  Result<void> write(const std::vector<pid_t>& pids) const;
  // Waits until none of those remembered lives, killing them after a while. Returns how many were killed.
  [[nodiscard]] Result<int> bury() const;

 private:
  std::string path_;
};

// Children of `parent` by /proc, without zombies.
std::vector<pid_t> living_children(pid_t parent);

}  // namespace space::supervise
