// SPDX-License-Identifier: Apache-2.0
#pragma once
// Process trees without cgroups, for the daemon as an ordinary process: a process belongs to the tree when it
// is in the leader's session, descends from the leader, or carries the tree's mark in its environment (which
// a process that made its own session and lost its parents still does). A process that also wipes its
// environment gets away; in a guest, where that would matter, trees are cgroups.

#include <cstdint>

#include "guest/command/process_tree.h"

namespace space::guest {

class ScannedTrees final : public ProcessTrees {
 public:
  Result<std::unique_ptr<ProcessTree>> make() override;
  // SPACED_TREE=<pid of the daemon>.<number>
  [[nodiscard]] std::string mark_of(const ProcessTree& tree) const override;

 private:
  std::uint64_t next_ = 1;
};

}  // namespace space::guest
