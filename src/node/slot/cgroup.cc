// SPDX-License-Identifier: Apache-2.0
#include "node/slot/cgroup.h"

#include "node/slot/internal/cgroup_forms.h"

namespace space::node::slot {

Result<std::unique_ptr<Cgroups>> Cgroups::open(const CgroupLayout& layout, const std::string& node) {
  std::string name = "space-" + node;
  switch (layout.kind) {
    case CgroupKind::kV1:
      return internal::open_v1(layout.mounts, name);
    case CgroupKind::kV2:
      return internal::open_v2(layout.mounts, name);
    case CgroupKind::kNone:
      break;
  }
  return make_error(Code::kFailedPrecondition, "node.no_cgroups",
                    "no usable control groups: mount cgroup v2 with memory, cpu and pids, or these three as "
                    "v1 hierarchies");
}

}  // namespace space::node::slot
