// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where this machine's control groups are mounted. Pure, except find_cgroup_mounts.

#include <map>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace space::node::slot {

struct CgroupMounts {
  std::map<std::string, std::string> v1;  // controller -> mount point
  std::string v2;                         // mount point, empty when there is none
  bool operator==(const CgroupMounts&) const = default;
};

// From the text of /proc/self/mountinfo. The first mount of a hierarchy counts.
CgroupMounts parse_cgroup_mounts(std::string_view mountinfo);

// Which of the two carries the limits: v2 when it has the controllers memory, cpu and pids (hybrid machines
// mount a v2 hierarchy without any), v1 when those three are there, else neither.
enum class CgroupKind : std::uint8_t { kNone, kV1, kV2 };
CgroupKind usable_kind(const CgroupMounts& mounts, std::string_view v2_controllers);

// Reads the machine. `kind` is what usable_kind says.
struct CgroupLayout {
  CgroupKind kind = CgroupKind::kNone;
  CgroupMounts mounts;
};
Result<CgroupLayout> find_cgroup_layout();

}  // namespace space::node::slot
