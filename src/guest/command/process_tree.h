// SPDX-License-Identifier: Apache-2.0
#pragma once
// All processes that came out of one command, however they detached themselves: what a kill must reach.
//
// In a guest a tree is a cgroup. Where no cgroup v2 is writable (the daemon as an ordinary process in tests),
// it is found by walking /proc. Resource types; for the loop's thread.

#include <sys/types.h>

#include <memory>
#include <string>

#include "lib/base/result.h"

namespace space::guest {

class ProcessTree {
 public:
  virtual ~ProcessTree() = default;
  // Where clone_child() puts the leader; -1 for none.
  [[nodiscard]] virtual int cgroup() const = 0;
  // The leader runs. Call before anything below.
  virtual void started(pid_t leader) = 0;
  // SIGKILL to all of it, new children included.
  virtual void kill_all() = 0;
  // `signal` to every process that is there now.
  virtual void signal_all(int signal) = 0;
  // Has the kernel killed something of it for want of memory?
  [[nodiscard]] virtual bool out_of_memory() const = 0;
  // True when nothing of it runs any more and what it occupied has been given back; then it stands for no
  // process.
  virtual bool try_release() = 0;
};

class ProcessTrees {
 public:
  virtual ~ProcessTrees() = default;
  // For one command. Errors: guest.too_many_processes, guest.internal.
  virtual Result<std::unique_ptr<ProcessTree>> make() = 0;
  // Variables that mark the tree's processes, if this kind needs a mark.
  [[nodiscard]] virtual std::string mark_of(const ProcessTree& tree) const = 0;
};

}  // namespace space::guest
