// SPDX-License-Identifier: Apache-2.0
#include "guest/command/scanned_tree.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "guest/core/small_file.h"

namespace space::guest {
namespace {

struct Process {
  pid_t pid;
  pid_t parent;
  pid_t session;
  bool marked;
};

pid_t parse(std::string_view text) {
  pid_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::vector<Process> all_processes(const std::string& mark) {
  std::vector<Process> found;
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return found;
  while (dirent* entry = ::readdir(proc)) {
    pid_t pid = parse(entry->d_name);
    if (pid <= 1) continue;
    std::string base = std::string("/proc/") + entry->d_name;
    std::string stat = read_small((base + "/stat").c_str(), 4096);
    // pid (name) state ppid pgrp session ...: the name may hold anything, so fields start after the last ')'.
    std::size_t close = stat.rfind(')');
    if (close == std::string::npos || close + 4 >= stat.size() || stat[close + 2] == 'Z') continue;
    std::string_view rest = std::string_view(stat).substr(close + 4);
    pid_t parent = parse(rest);
    rest.remove_prefix(rest.find(' ') + 1);
    rest.remove_prefix(rest.find(' ') + 1);
    std::string environment = read_small((base + "/environ").c_str(), 256u << 10);
    environment.insert(environment.begin(), '\0');
    found.push_back({pid, parent, parse(rest), environment.find('\0' + mark + '\0') != std::string::npos});
  }
  ::closedir(proc);
  return found;
}

class ScannedTree final : public ProcessTree {
 public:
  explicit ScannedTree(std::string mark) : mark_(std::move(mark)) {}

  [[nodiscard]] int cgroup() const override { return -1; }
  void started(pid_t leader) override { leader_ = leader; }

  void kill_all() override {
    // Until a look finds nobody: what was being forked while we looked is found the next time.
    for (int round = 0; round < 100; ++round) {
      std::set<pid_t> members = find();
      if (members.empty()) return;
      for (pid_t pid : members) ::kill(pid, SIGKILL);
    }
  }

  void signal_all(int signal) override {
    for (pid_t pid : find()) ::kill(pid, signal);
  }

  [[nodiscard]] bool out_of_memory() const override { return false; }
  bool try_release() override { return true; }
  [[nodiscard]] const std::string& mark() const { return mark_; }

 private:
  std::set<pid_t> find() const {
    std::vector<Process> all = all_processes(mark_);
    std::set<pid_t> members;
    for (const auto& process : all) {
      if (process.marked || (leader_ > 0 && (process.session == leader_ || process.pid == leader_)))
        members.insert(process.pid);
    }
    for (bool grew = true; grew;) {
      grew = false;
      for (const auto& process : all) {
        if (members.count(process.parent) != 0) grew |= members.insert(process.pid).second;
      }
    }
    members.erase(::getpid());
    return members;
  }

  std::string mark_;
  pid_t leader_ = 0;
};

}  // namespace

Result<std::unique_ptr<ProcessTree>> ScannedTrees::make() {
  std::string mark = "SPACED_TREE=" + std::to_string(::getpid()) + "." + std::to_string(next_++);
  return std::unique_ptr<ProcessTree>(std::make_unique<ScannedTree>(std::move(mark)));
}

std::string ScannedTrees::mark_of(const ProcessTree& tree) const {
  return static_cast<const ScannedTree&>(tree).mark();  // SAFETY: every tree it is asked about is one it made
}

}  // namespace space::guest
