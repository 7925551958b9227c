// SPDX-License-Identifier: Apache-2.0
#include "node/slot/cgroup_mounts.h"

#include <vector>

#include "lib/os/file.h"

namespace space::node::slot {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    std::size_t end = std::min(text.find(separator), text.size());
    if (end != 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool has_word(std::string_view text, std::string_view word) {
  for (std::string_view part : split(text, ' ')) {
    if (part.substr(0, part.find('\n')) == word) return true;
  }
  return false;
}

}  // namespace

CgroupMounts parse_cgroup_mounts(std::string_view mountinfo) {
  CgroupMounts mounts;
  for (std::string_view line : split(mountinfo, '\n')) {
    // "36 25 0:31 / /sys/fs/cgroup/memory rw,... - cgroup cgroup rw,memory"
    auto dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    auto before = split(line.substr(0, dash), ' ');
    auto after = split(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.size() < 3) continue;
    std::string where(before[4]);
    if (after[0] == "cgroup2" && mounts.v2.empty()) mounts.v2 = where;
    if (after[0] != "cgroup") continue;
    for (std::string_view option : split(after[2], ',')) mounts.v1.emplace(option, where);
  }
  // Options that are no controllers stay in the map; nobody asks for them.
  return mounts;
}

CgroupKind usable_kind(const CgroupMounts& mounts, std::string_view v2_controllers) {
  constexpr std::string_view kNeeded[] = {"memory", "cpu", "pids"};
  bool v2 = !mounts.v2.empty();
  bool v1 = true;
  for (std::string_view controller : kNeeded) {
    v2 = v2 && has_word(v2_controllers, controller);
    v1 = v1 && mounts.v1.contains(std::string(controller));
  }
  return v2 ? CgroupKind::kV2 : v1 ? CgroupKind::kV1 : CgroupKind::kNone;
}

Result<CgroupLayout> find_cgroup_layout() {
  SPACE_TRY(std::string text, os::read_file("/proc/self/mountinfo"));
  CgroupLayout layout;
  layout.mounts = parse_cgroup_mounts(text);
  std::string controllers;
  if (!layout.mounts.v2.empty()) {
    SPACE_TRY(controllers, os::read_file(layout.mounts.v2 + "/cgroup.controllers"));
  }
  layout.kind = usable_kind(layout.mounts, controllers);
  return layout;
}

}  // namespace space::node::slot
