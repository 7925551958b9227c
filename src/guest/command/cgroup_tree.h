// SPDX-License-Identifier: Apache-2.0
#pragma once
// Process trees as cgroups of version 2: ROOT/commands/<number>.
//
// Limits (computed once, from the machine's size) leave a reserve to the daemon: all commands together may
// have all memory and process numbers but the reserve, and one command a little less than all, so that the
// kernel looks for a victim in the command that went too far, and another command can still be started.

#include <cstdint>
#include <string>
#include <vector>

#include "guest/command/process_tree.h"
#include "lib/os/fd.h"

namespace space::guest {

struct CommandLimits {
  std::uint64_t all_memory_bytes;
  std::uint64_t one_memory_bytes;
  std::uint64_t all_processes;
  std::uint64_t one_processes;
};
// For a machine with that much memory available when nothing runs yet, and room for `threads` threads. Pure.
CommandLimits command_limits(std::uint64_t available_bytes, std::uint64_t threads);

// A cgroup for one command at a time.
struct CommandCgroup {
  std::string name;
  os::Fd directory;
  std::uint64_t oom_kills = 0;  // in memory.events when it was last looked at
};

class CgroupTrees final : public ProcessTrees {
 public:
  // Takes over the hierarchy mounted at `root`: moves this process to ROOT/spaced, enables controllers, makes
  // ROOT/commands with its limits. Call once, before threads are made. Errors: guest.no_cgroups.
  static Result<std::unique_ptr<CgroupTrees>> open(const std::string& root);

  Result<std::unique_ptr<ProcessTree>> make() override;
  [[nodiscard]] std::string mark_of(const ProcessTree&) const override { return {}; }
  // Takes back an empty cgroup, for the next command.
  void take_back(CommandCgroup cgroup);

 private:
  CgroupTrees(os::Fd commands, CommandLimits limits) : commands_(std::move(commands)), limits_(limits) {}

  os::Fd commands_;
  CommandLimits limits_;
  static constexpr std::size_t kMaxIdle = 32;
  std::uint64_t next_ = 1;
  std::vector<CommandCgroup> idle_;
};

}  // namespace space::guest
