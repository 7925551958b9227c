// SPDX-License-Identifier: Apache-2.0
#include <sys/sysinfo.h>
#include <unistd.h>

#include <thread>

#include "lib/base/size.h"
#include "lib/os/file.h"
#include "node/admission.h"
#include "node/doctor/looks.h"
#include "node/slot/cgroup_mounts.h"

namespace space::node::doctor {
namespace {

constexpr std::uint64_t kGoodMemory = 2 * kGiB;
constexpr std::uint64_t kLeastMemory = 512 * kMiB;
constexpr std::uint64_t kGoodDisk = 10 * kGiB;

std::string rounded(std::uint64_t bytes) {
  return bytes >= kGiB ? format_size(bytes / kGiB * kGiB) : format_size(bytes / kMiB * kMiB);
}

}  // namespace

Finding look_at_user() {
  if (::geteuid() == 0) return {Status::kOk, "running as root"};
  return {Status::kFail, "running as user " + std::to_string(::geteuid())};
}

Finding look_at_memory() {
  struct sysinfo info{};
  ::sysinfo(&info);
  std::uint64_t total = static_cast<std::uint64_t>(info.totalram) * info.mem_unit;
  std::string found =
      rounded(total) + ", " + std::to_string(std::thread::hardware_concurrency()) + " processors";
  return {total >= kGoodMemory ? Status::kOk : total >= kLeastMemory ? Status::kWarn : Status::kFail, found};
}

Finding look_at_disk(const std::string& directory) {
  auto free = os::free_bytes(directory);
  if (!free.ok()) return {Status::kFail, free.error().message};
  std::string found = rounded(*free) + " free on " + directory;
  return {*free >= kGoodDisk                      ? Status::kOk
          : *free >= Machine{}.disk_reserve_bytes ? Status::kWarn
                                                  : Status::kFail,
          found};
}

Finding look_at_cgroups() {
  auto layout = slot::find_cgroup_layout();
  if (!layout.ok()) return {Status::kFail, layout.error().message};
  switch (layout->kind) {
    case slot::CgroupKind::kV2:
      return {Status::kOk, "v2 at " + layout->mounts.v2 + " with memory, cpu, pids"};
    case slot::CgroupKind::kV1:
      return {Status::kOk, std::string("v1 hierarchies memory, cpu, pids") +
                               (layout->mounts.v1.contains("freezer") ? ", freezer" : "")};
    case slot::CgroupKind::kNone:
      break;
  }
  return {Status::kFail, "neither v2 nor v1 offers memory, cpu and pids"};
}

Finding look_at_clock() {
  auto source = os::read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource", 256);
  if (!source.ok()) return {Status::kWarn, source.error().message};
  std::string name = source->substr(0, source->find('\n'));
  bool fast =
      name == "tsc" || name == "kvm-clock" || name == "arch_sys_counter" || name.starts_with("hyperv");
  return {fast ? Status::kOk : Status::kWarn, name};
}

}  // namespace space::node::doctor
