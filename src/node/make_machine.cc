// SPDX-License-Identifier: Apache-2.0
#include "node/make_machine.h"

#include <csignal>

#include "lib/os/file.h"
#include "node/crash_point.h"

namespace space::node {
namespace {

constexpr auto kReleaseLimit = std::chrono::seconds(20);
constexpr auto kKillLimit = std::chrono::seconds(10);

Result<void> make_files(Environment& environment, const SandboxRecord& record, const vmm::MachineSpec& spec,
                        const slot::Slot& slot) {
  SPACE_CHECK_OK(os::make_directory(slot.home, 0700));
  SPACE_CRASH_POINT("create.directory");
  SPACE_CHECK_OK(save_record(slot.home, record));
  SPACE_CRASH_POINT("create.record");
  SPACE_CHECK_OK(slot::make_slot_directory(slot));
  SPACE_CHECK_OK(environment.backend.fill(spec, slot));
  SPACE_CRASH_POINT("create.files");
  return {};
}

}  // namespace

Result<slot::JailProcess> make_machine(Environment& environment, SandboxRecord record,
                                       const vmm::MachineSpec& spec, const slot::Slot& slot) {
  SPACE_CHECK_OK(make_files(environment, record, spec, slot));
  slot::CgroupLimits limits;
  limits.memory_bytes = record.resources.memory_bytes + record.overhead_bytes;
  limits.pids = environment.backend.max_tasks(record.resources);
  // The virtual processors, and a quarter for devices and translation.
  limits.cpu_percent = record.resources.vcpus * 100 + 25;
  SPACE_CHECK_OK(environment.cgroups.create(record.sandbox, limits));
  SPACE_CRASH_POINT("create.cgroup");
  SPACE_TRY(auto sockets, slot::listen_in_slot(slot));
  SPACE_TRY(auto jail, environment.backend.start(spec, slot, std::move(sockets)));
  SPACE_CRASH_POINT("create.held");
  SPACE_CHECK_OK(environment.cgroups.add(record.sandbox, jail.identity().pid));
  record.process = jail.identity();
  SPACE_CHECK_OK(save_record(slot.home, record));
  SPACE_CRASH_POINT("create.recorded");
  auto released = jail.release(kReleaseLimit);
  if (!released.ok()) {
    std::string printed = jail.printed();
    if (!printed.empty()) return std::move(released).error().context(printed);
    return std::move(released).error();
  }
  SPACE_CRASH_POINT("create.released");
  return jail;
}

Result<void> kill_machine(Environment& environment, const SandboxId& sandbox, int pidfd) {
  if (pidfd >= 0) process::send_signal(pidfd, SIGKILL);
  SPACE_CHECK_OK(environment.cgroups.kill_all(sandbox, kKillLimit));
  if (pidfd >= 0 && !process::wait_for_exit(pidfd, std::chrono::steady_clock::now() + kKillLimit)) {
    return make_error(Code::kDeadlineExceeded, "node.process_stuck",
                      "the machine's process did not end after SIGKILL");
  }
  return {};
}

Result<void> unmake_machine(Environment& environment, const SandboxId& sandbox, int pidfd) {
  SPACE_CHECK_OK(kill_machine(environment, sandbox, pidfd));
  SPACE_CRASH_POINT("destroy.killed");
  SPACE_CHECK_OK(environment.cgroups.remove(sandbox));
  SPACE_CRASH_POINT("destroy.cgroup");
  // The record goes last.
  std::string home = environment.home_of(sandbox);
  SPACE_CHECK_OK(os::remove_tree(home + "/slot"));
  SPACE_CRASH_POINT("destroy.files");
  return os::remove_tree(home);
}

}  // namespace space::node
