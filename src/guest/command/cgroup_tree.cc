// SPDX-License-Identifier: Apache-2.0
#include "guest/command/cgroup_tree.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "guest/core/log.h"
#include "guest/core/small_file.h"
#include "lib/base/size.h"

namespace space::guest {
namespace {

std::uint64_t oom_kills(int directory) {
  return number_after(read_small("memory.events", 4096, directory), "oom_kill ");
}

class CgroupTree final : public ProcessTree {
 public:
  // `trees` outlives its trees.
  CgroupTree(CgroupTrees& trees, CommandCgroup cgroup) : trees_(trees), cgroup_(std::move(cgroup)) {}
  ~CgroupTree() override { try_release(); }

  [[nodiscard]] int cgroup() const override { return cgroup_.directory.get(); }
  void started(pid_t) override {}

  void kill_all() override {
    if (cgroup_.directory) write_small("cgroup.kill", "1", cgroup_.directory.get());
  }

  void signal_all(int signal) override {
    if (!cgroup_.directory) return;
    std::string processes = read_small("cgroup.procs", 1u << 20, cgroup_.directory.get());
    const char* at = processes.data();
    const char* end = at + processes.size();
    while (at < end) {
      pid_t pid = 0;
      auto parsed = std::from_chars(at, end, pid);
      if (pid > 1) ::kill(pid, signal);
      at = parsed.ptr + 1;
    }
  }

  [[nodiscard]] bool out_of_memory() const override {
    return cgroup_.directory && oom_kills(cgroup_.directory.get()) != cgroup_.oom_kills;
  }

  bool try_release() final {
    if (!cgroup_.directory) return true;
    std::string events = read_small("cgroup.events", 4096, cgroup_.directory.get());
    if (number_after(events, "populated ") != 0) return false;
    cgroup_.oom_kills = oom_kills(cgroup_.directory.get());
    trees_.take_back(std::move(cgroup_));
    return true;
  }

 private:
  CgroupTrees& trees_;
  CommandCgroup cgroup_;
};

bool set(int directory, const char* file, const std::string& value) {
  if (write_small(file, value, directory)) return true;
  log_line("cgroup", errno_error(errno, "", std::string("write ") + file).message);
  return false;
}

std::uint64_t machine_threads() {
  auto limit = [](const char* path) { return number_after(read_small(path), ""); };
  return std::min(limit("/proc/sys/kernel/threads-max"), limit("/proc/sys/kernel/pid_max"));
}

std::uint64_t available_memory() {
  return number_after(read_small("/proc/meminfo"), "MemAvailable:") * kKiB;
}

}  // namespace

CommandLimits command_limits(std::uint64_t available_bytes, std::uint64_t threads) {
  // The daemon with its locked output buffers, and the kernel's own needs while it reclaims.
  std::uint64_t reserve = std::clamp(available_bytes / 12, 24 * kMiB, 256 * kMiB);
  std::uint64_t all_memory = available_bytes > 2 * reserve ? available_bytes - reserve : available_bytes / 2;
  // Kernel threads and the daemon's own count too.
  std::uint64_t all_threads =
      threads > 512 ? threads - std::max<std::uint64_t>(256, threads / 8) : threads / 2;
  return {all_memory, all_memory - all_memory / 16, all_threads, all_threads - all_threads / 8};
}

Result<std::unique_ptr<CgroupTrees>> CgroupTrees::open(const std::string& root) {
  auto fail = [&](const std::string& what) {
    return errno_error(errno, "guest.no_cgroups", what + " below " + root);
  };
  os::Fd top(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!top) return fail("open cgroups");
  for (const char* name : {"spaced", "commands"}) {
    if (::mkdirat(top.get(), name, 0755) != 0 && errno != EEXIST) return fail(std::string("make ") + name);
  }
  os::Fd own(::openat(top.get(), "spaced", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  os::Fd commands(::openat(top.get(), "commands", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!own || !commands) return fail("open spaced and commands");
  if (!write_small("cgroup.procs", "0", own.get())) return fail("enter spaced");
  if (!write_small("cgroup.subtree_control", "+memory +pids +cpu", top.get()))
    return fail("enable memory, pids and cpu");
  if (!write_small("cgroup.subtree_control", "+memory +pids +cpu", commands.get()))
    return fail("enable memory, pids and cpu in commands");
  CommandLimits limits = command_limits(available_memory(), machine_threads());
  bool limited = set(commands.get(), "memory.max", std::to_string(limits.all_memory_bytes)) &&
                 set(commands.get(), "pids.max", std::to_string(limits.all_processes)) &&
                 set(own.get(), "cpu.weight", "10000");
  if (!limited) return fail("set limits");
  return std::unique_ptr<CgroupTrees>(new CgroupTrees(std::move(commands), limits));
}

Result<std::unique_ptr<ProcessTree>> CgroupTrees::make() {
  CommandCgroup cgroup;
  if (!idle_.empty()) {
    cgroup = std::move(idle_.back());
    idle_.pop_back();
  } else {
    cgroup.name = std::to_string(next_++);
    const char* name = cgroup.name.c_str();
    if (::mkdirat(commands_.get(), name, 0755) != 0)
      return errno_error(errno, "guest.internal", "make the command's cgroup");
    cgroup.directory = os::Fd(::openat(commands_.get(), name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!cgroup.directory) return errno_error(errno, "guest.internal", "open the command's cgroup");
    set(cgroup.directory.get(), "memory.max", std::to_string(limits_.one_memory_bytes));
    set(cgroup.directory.get(), "pids.max", std::to_string(limits_.one_processes));
  }
  return std::unique_ptr<ProcessTree>(std::make_unique<CgroupTree>(*this, std::move(cgroup)));
}

void CgroupTrees::take_back(CommandCgroup cgroup) {
  if (idle_.size() < kMaxIdle) return idle_.push_back(std::move(cgroup));
  ::unlinkat(commands_.get(), cgroup.name.c_str(), AT_REMOVEDIR);
}

}  // namespace space::guest
