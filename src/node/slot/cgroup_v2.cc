// SPDX-License-Identifier: Apache-2.0
#include <csignal>

#include "lib/os/file.h"
#include "node/slot/internal/cgroup_files.h"
#include "node/slot/internal/cgroup_forms.h"

namespace space::node::slot::internal {
namespace {

constexpr std::uint64_t kPeriodUs = 100'000;
constexpr const char* kControllers = "+memory +cpu +pids";

class CgroupsV2 final : public Cgroups {
 public:
  CgroupsV2(const CgroupMounts& mounts, const std::string& node)
      : root_(mounts.v2), parent_(mounts.v2 + "/" + node) {}

  Result<void> prepare() {
    SPACE_CHECK_OK(write_value(root_ + "/cgroup.subtree_control", kControllers));
    SPACE_CHECK_OK(make_group(parent_));
    return write_value(parent_ + "/cgroup.subtree_control", kControllers);
  }

  Result<void> create(const SandboxId& sandbox, const CgroupLimits& limits) override {
    std::string group = path_of(sandbox);
    SPACE_CHECK_OK(make_group(group));
    SPACE_CHECK_OK(write_value(group + "/memory.max", std::to_string(limits.memory_bytes)));
    if (os::exists(group + "/memory.swap.max")) SPACE_CHECK_OK(write_value(group + "/memory.swap.max", "0"));
    // The kernel's out-of-memory killer takes the whole sandbox or nothing.
    if (os::exists(group + "/memory.oom.group"))
      SPACE_CHECK_OK(write_value(group + "/memory.oom.group", "1"));
    SPACE_CHECK_OK(write_value(group + "/pids.max", std::to_string(limits.pids)));
    SPACE_CHECK_OK(write_value(group + "/cpu.weight", std::to_string(weight(limits.cpu_percent))));
    return write_value(group + "/cpu.max", std::to_string(kPeriodUs * limits.cpu_percent / 100) + " " +
                                               std::to_string(kPeriodUs));
  }

  Result<void> add(const SandboxId& sandbox, pid_t pid) override {
    return write_value(path_of(sandbox) + "/cgroup.procs", std::to_string(pid));
  }

  Result<void> kill_all(const SandboxId& sandbox, std::chrono::milliseconds limit) override {
    std::string group = path_of(sandbox);
    bool whole = os::exists(group + "/cgroup.kill");  // Linux 5.14
    return until_empty(group, limit, [&] {
      if (whole) {
        write_value(group + "/cgroup.kill", "1").ignore("the caller looks whether it helped");
        return;
      }
      auto all = processes(group);
      if (!all.ok()) return;
      for (pid_t pid : *all) ::kill(pid, SIGKILL);
    });
  }

  Result<void> remove(const SandboxId& sandbox) override { return remove_group(path_of(sandbox)); }

  [[nodiscard]] Result<std::vector<std::string>> list() const override { return groups_in(parent_); }

  [[nodiscard]] Result<std::uint64_t> memory_bytes(const SandboxId& sandbox) const override {
    return read_number(path_of(sandbox) + "/memory.current");
  }

  [[nodiscard]] bool out_of_memory(const SandboxId& sandbox) const override {
    return read_count(path_of(sandbox) + "/memory.events", "oom_kill") != 0;
  }

  void close() override {
    auto left = groups_in(parent_);
    if (left.ok() && left->empty()) remove_group(parent_).ignore("an empty group that stays does no harm");
  }

 private:
  [[nodiscard]] std::string path_of(const SandboxId& sandbox) const { return parent_ + "/" + sandbox.str(); }
  // 100 is the kernel's default for a group; 1..10000.
  static std::uint64_t weight(std::uint32_t cpu_percent) {
    return std::min<std::uint64_t>(std::max<std::uint64_t>(cpu_percent, 1), 10'000);
  }

  std::string root_;
  std::string parent_;
};

}  // namespace

Result<std::unique_ptr<Cgroups>> open_v2(const CgroupMounts& mounts, const std::string& node) {
  auto groups = std::make_unique<CgroupsV2>(mounts, node);
  SPACE_CHECK_OK(groups->prepare());
  return std::unique_ptr<Cgroups>(std::move(groups));
}

}  // namespace space::node::slot::internal
