// SPDX-License-Identifier: Apache-2.0
#include "guest/command/cgroup_tree.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "guest/core/log.h"
#include "guest/core/small_file.h"
#include "lib/base/size.h"

namespace space::guest {
namespace {

class CgroupTree final : public ProcessTree {
 public:
  CgroupTree(int commands, std::string name, os::Fd directory)
      : commands_(commands), name_(std::move(name)), directory_(std::move(directory)) {}
  ~CgroupTree() override { try_remove(); }

  [[nodiscard]] int cgroup() const override { return directory_.get(); }
  void started(pid_t) override {}

  void kill_all() override {
    if (directory_) write_small("cgroup.kill", "1", directory_.get());
  }

  void signal_all(int signal) override {
    if (!directory_) return;
    std::string processes = read_small("cgroup.procs", 1u << 20, directory_.get());
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
    if (!directory_) return false;
    return number_after(read_small("memory.events", 4096, directory_.get()), "oom_kill ") != 0;
  }

  bool try_remove() override {
    if (!directory_) return true;
    // Busy while a process is in it, or one that has ended is unreaped.
    if (::unlinkat(commands_, name_.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) return false;
    directory_.reset();
    return true;
  }

 private:
  int commands_;  // of the CgroupTrees, which outlives its trees
  std::string name_;
  os::Fd directory_;
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

std::uint64_t machine_memory() {
  struct sysinfo info{};
  ::sysinfo(&info);
  return std::uint64_t{info.totalram} * info.mem_unit;
}

}  // namespace

CommandLimits command_limits(std::uint64_t memory_bytes, std::uint64_t threads) {
  // The daemon with its locked output buffers, and the kernel's own needs while it reclaims.
  std::uint64_t reserve = std::clamp(memory_bytes / 12, 24 * kMiB, 256 * kMiB);
  std::uint64_t all_memory = memory_bytes > 2 * reserve ? memory_bytes - reserve : memory_bytes / 2;
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
  CommandLimits limits = command_limits(machine_memory(), machine_threads());
  bool limited = set(commands.get(), "memory.max", std::to_string(limits.all_memory_bytes)) &&
                 set(commands.get(), "pids.max", std::to_string(limits.all_processes)) &&
                 set(own.get(), "cpu.weight", "10000");
  if (!limited) return fail("set limits");
  return std::unique_ptr<CgroupTrees>(new CgroupTrees(std::move(commands), limits));
}

Result<std::unique_ptr<ProcessTree>> CgroupTrees::make() {
  std::string name = std::to_string(next_++);
  if (::mkdirat(commands_.get(), name.c_str(), 0755) != 0)
    return errno_error(errno, "guest.internal", "make the command's cgroup");
  os::Fd directory(::openat(commands_.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return errno_error(errno, "guest.internal", "open the command's cgroup");
  set(directory.get(), "memory.max", std::to_string(limits_.one_memory_bytes));
  set(directory.get(), "pids.max", std::to_string(limits_.one_processes));
  return std::unique_ptr<ProcessTree>(
      std::make_unique<CgroupTree>(commands_.get(), std::move(name), std::move(directory)));
}

}  // namespace space::guest
