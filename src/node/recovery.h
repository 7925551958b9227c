// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an earlier process of this node left on the machine. Blocking; only before new sandboxes are made.

#include <string>
#include <vector>

#include "node/environment.h"
#include "node/record.h"

namespace space::node {

struct Remains {
  std::vector<SandboxRecord> records;
  // Directories and control groups of this node that no readable record speaks of, by name.
  std::vector<std::string> rubbish;
};

// Errors: os.file, node.cgroup.
Result<Remains> find_remains(Environment& environment);

// Kills and removes; returns the names that are gone, logs the others.
std::vector<std::string> remove_rubbish(Environment& environment, const std::vector<std::string>& names);

}  // namespace space::node
