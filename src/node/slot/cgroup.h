// SPDX-License-Identifier: Apache-2.0
#pragma once
// Control groups of a node's sandboxes: limits, and the certainty that nothing of a sandbox runs any more.
//
// A sandbox's groups are `space-<node>/<sandbox>` in each hierarchy that is used: memory, cpu, pids and,
// where there is one, freezer on v1 machines; the one hierarchy on v2. A VMM is put in before it executes
// anything of its own, so every process of the sandbox is in them. Blocking but fast (a few writes). Errors:
// node.cgroup with the code of the errno.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/id.h"
#include "lib/base/result.h"
#include "node/slot/cgroup_mounts.h"

namespace space::node::slot {

struct CgroupLimits {
  std::uint64_t memory_bytes = 0;  // everything: guest memory, the VMM's own, page cache it caused
  std::uint32_t pids = 0;          // tasks, threads included
  std::uint32_t cpu_percent = 0;   // of one processor: 150 is one and a half
};

// Resource type; any thread. `node` is the node's id.
class Cgroups {
 public:
  // Makes the node's own group. Errors: failed_precondition node.no_cgroups when the machine has neither
  // form.
  static Result<std::unique_ptr<Cgroups>> open(const CgroupLayout& layout, const std::string& node);
  virtual ~Cgroups() = default;
  Cgroups(const Cgroups&) = delete;
  Cgroups& operator=(const Cgroups&) = delete;

  // Idempotent: an existing group gets the limits.
  virtual Result<void> create(const SandboxId& sandbox, const CgroupLimits& limits) = 0;
  virtual Result<void> add(const SandboxId& sandbox, pid_t pid) = 0;
  // SIGKILL to everything in it, also to what is being started meanwhile, and waits until it is empty.
  // An absent group is success. Errors: deadline_exceeded node.cgroup_busy.
  virtual Result<void> kill_all(const SandboxId& sandbox, std::chrono::milliseconds limit) = 0;
  // Precondition: empty. An absent group is success. Errors: node.cgroup_busy.
  virtual Result<void> remove(const SandboxId& sandbox) = 0;
  // Names of all groups of this node, whoever made them, sorted; each once.
  [[nodiscard]] virtual Result<std::vector<std::string>> list() const = 0;
  // Bytes charged to the sandbox now.
  [[nodiscard]] virtual Result<std::uint64_t> memory_bytes(const SandboxId& sandbox) const = 0;
  // Has the kernel killed something of it because its memory limit was reached? False when the group is gone.
  [[nodiscard]] virtual bool out_of_memory(const SandboxId& sandbox) const = 0;
  // Removes the node's own group if it is empty.
  virtual void close() = 0;

 protected:
  Cgroups() = default;
};

}  // namespace space::node::slot
