// SPDX-License-Identifier: Apache-2.0
#pragma once
// The two forms behind Cgroups. `node` is the name of the node's own group.

#include <memory>
#include <string>

#include "node/slot/cgroup.h"

namespace space::node::slot::internal {

Result<std::unique_ptr<Cgroups>> open_v1(const CgroupMounts& mounts, const std::string& node);
Result<std::unique_ptr<Cgroups>> open_v2(const CgroupMounts& mounts, const std::string& node);

}  // namespace space::node::slot::internal
