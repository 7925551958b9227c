// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <set>

#include "lib/os/file.h"
#include "node/slot/internal/cgroup_files.h"
#include "node/slot/internal/cgroup_forms.h"

namespace space::node::slot::internal {
namespace {

constexpr std::uint64_t kPeriodUs = 100'000;

class CgroupsV1 final : public Cgroups {
 public:
  CgroupsV1(const CgroupMounts& mounts, const std::string& node) {
    memory_ = mounts.v1.at("memory") + "/" + node;
    cpu_ = mounts.v1.at("cpu") + "/" + node;
    pids_ = mounts.v1.at("pids") + "/" + node;
    // Several controllers may share a mount.
    std::set<std::string> all{memory_, cpu_, pids_};
    if (auto freezer = mounts.v1.find("freezer"); freezer != mounts.v1.end()) {
      freezer_ = freezer->second + "/" + node;
      all.insert(freezer_);
    }
    all_.assign(all.begin(), all.end());
  }

  Result<void> prepare() {
    for (const auto& parent : all_) SPACE_CHECK_OK(make_group(parent));
    return {};
  }

  Result<void> create(const SandboxId& sandbox, const CgroupLimits& limits) override {
    for (const auto& parent : all_) SPACE_CHECK_OK(make_group(parent + "/" + sandbox.str()));
    std::string memory = memory_ + "/" + sandbox.str();
    // Swap accounting is off on many machines; then the second file isn't there. It may never be below the
    // first, so it steps aside while that one changes.
    std::string with_swap = memory + "/memory.memsw.limit_in_bytes";
    bool counts_swap = os::exists(with_swap);
    if (counts_swap) SPACE_CHECK_OK(write_value(with_swap, "-1"));
    SPACE_CHECK_OK(write_value(memory + "/memory.limit_in_bytes", std::to_string(limits.memory_bytes)));
    if (counts_swap) SPACE_CHECK_OK(write_value(with_swap, std::to_string(limits.memory_bytes)));
    SPACE_CHECK_OK(write_value(pids_ + "/" + sandbox.str() + "/pids.max", std::to_string(limits.pids)));
    std::string cpu = cpu_ + "/" + sandbox.str();
    SPACE_CHECK_OK(
        write_value(cpu + "/cpu.shares", std::to_string(std::uint64_t{1024} * limits.cpu_percent / 100)));
    // Kernels without CFS bandwidth have no quota; shares still hold.
    if (os::exists(cpu + "/cpu.cfs_quota_us")) {
      SPACE_CHECK_OK(write_value(cpu + "/cpu.cfs_period_us", std::to_string(kPeriodUs)));
      SPACE_CHECK_OK(
          write_value(cpu + "/cpu.cfs_quota_us", std::to_string(kPeriodUs * limits.cpu_percent / 100)));
    }
    return {};
  }

  Result<void> add(const SandboxId& sandbox, pid_t pid) override {
    for (const auto& parent : all_) {
      SPACE_CHECK_OK(write_value(parent + "/" + sandbox.str() + "/cgroup.procs", std::to_string(pid)));
    }
    return {};
  }

  Result<void> kill_all(const SandboxId& sandbox, std::chrono::milliseconds limit) override {
    std::string group = pids_ + "/" + sandbox.str();
    // A limit of nothing stops a fork bomb from outrunning the loop.
    if (os::exists(group)) write_value(group + "/pids.max", "0").ignore("the loop below decides");
    return until_empty(group, limit, [&] {
      auto all = processes(group);
      if (!all.ok()) return;
      for (pid_t pid : *all) ::kill(pid, SIGKILL);
    });
  }

  Result<void> remove(const SandboxId& sandbox) override {
    for (const auto& parent : all_) SPACE_CHECK_OK(remove_group(parent + "/" + sandbox.str()));
    return {};
  }

  [[nodiscard]] Result<std::vector<std::string>> list() const override {
    std::set<std::string> names;
    for (const auto& parent : all_) {
      SPACE_TRY(auto here, groups_in(parent));
      names.insert(here.begin(), here.end());
    }
    return std::vector<std::string>(names.begin(), names.end());
  }

  [[nodiscard]] Result<std::uint64_t> memory_bytes(const SandboxId& sandbox) const override {
    return read_number(memory_ + "/" + sandbox.str() + "/memory.usage_in_bytes");
  }

  [[nodiscard]] bool out_of_memory(const SandboxId& sandbox) const override {
    return read_count(memory_ + "/" + sandbox.str() + "/memory.oom_control", "oom_kill") != 0;
  }

  void close() override {
    for (const auto& parent : all_) {
      auto left = groups_in(parent);
      if (left.ok() && left->empty()) remove_group(parent).ignore("an empty group that stays does no harm");
    }
  }

 private:
  std::string memory_;
  std::string cpu_;
  std::string pids_;
  std::string freezer_;
  std::vector<std::string> all_;
};

}  // namespace

Result<std::unique_ptr<Cgroups>> open_v1(const CgroupMounts& mounts, const std::string& node) {
  auto groups = std::make_unique<CgroupsV1>(mounts, node);
  SPACE_CHECK_OK(groups->prepare());
  return std::unique_ptr<Cgroups>(std::move(groups));
}

}  // namespace space::node::slot::internal
