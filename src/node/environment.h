// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the parts of a node work with: built by main() or a test, outlives them all.

#include <string>

#include "lib/async/blocking_pool.h"
#include "lib/async/task.h"
#include "lib/base/clock.h"
#include "lib/obs/log.h"
#include "node/admission.h"
#include "node/link_client.h"
#include "node/slot/cgroup.h"
#include "node/vmm/backend.h"

namespace space::node {

struct Environment {
  async::Executor executor;
  async::BlockingPool& pool;
  const Clock& clock;
  const obs::Log& log;
  vmm::Backend& backend;
  slot::Cgroups& cgroups;
  LinkClient& link;
  Machine machine;
  std::string node;           // this node's id
  std::string sandboxes_dir;  // holds a directory for each sandbox

  [[nodiscard]] std::string home_of(const SandboxId& sandbox) const {
    return sandboxes_dir + "/" + sandbox.str();
  }
};

}  // namespace space::node
