// SPDX-License-Identifier: Apache-2.0
#include "supervise/children_file.h"

#include <poll.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <optional>
#include <sstream>

#include "lib/os/file.h"

namespace space::supervise {
namespace {

constexpr int kStepMs = 20;
constexpr int kPatienceMs = 2000;  // until they are killed
constexpr int kGiveUpMs = 7000;

struct Stat {
  char state = '?';
  pid_t parent = 0;
  std::string start;  // clock ticks after boot
};

// Fields of /proc/PID/stat behind the name, which may hold anything.
std::optional<Stat> stat_of(const std::string& pid) {
  auto text = os::read_file("/proc/" + pid + "/stat", 4096);
  if (!text.ok()) return std::nullopt;
  auto name_end = text->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text->substr(name_end + 1));
  Stat stat;
  fields >> stat.state >> stat.parent;
  for (int skipped = 0; skipped < 17; ++skipped) fields >> stat.start;
  fields >> stat.start;
  if (!fields) return std::nullopt;
  return stat;
}

std::string boot() {
  auto id = os::read_file("/proc/sys/kernel/random/boot_id", 128);
  return id.ok() ? id->substr(0, id->find('\n')) : "unknown";
}

bool dead(const std::optional<Stat>& stat) {
  return !stat || stat->state == 'Z' || stat->state == 'X';
}

}  // namespace

Result<void> ChildrenFile::write(const std::vector<pid_t>& pids) const {
  std::string content = boot() + "\n";
  for (pid_t pid : pids) {
    auto stat = stat_of(std::to_string(pid));
    if (!dead(stat)) content += std::to_string(pid) + " " + stat->start + "\n";
  }
  return os::write_file_atomic(path_, content, os::Durability::kBuffered, 0600);
}

Result<int> ChildrenFile::bury() const {
  if (!os::exists(path_)) return 0;
  SPACE_TRY(std::string content, os::read_file(path_, 64u << 10));
  std::istringstream lines(content);
  std::string written_at;
  std::getline(lines, written_at);
  if (written_at != boot()) return 0;
  std::vector<std::pair<std::string, std::string>> old;
  for (std::string pid, start; lines >> pid >> start;) old.emplace_back(pid, start);
  int killed = 0;
  for (int waited = 0;; waited += kStepMs) {
    std::erase_if(old, [](const auto& one) {
      auto stat = stat_of(one.first);
      return dead(stat) || stat->start != one.second;
    });
    if (old.empty()) return killed;
    if (waited >= kGiveUpMs) {
      return make_error(Code::kFailedPrecondition, "supervise.in_use",
                        "a service process of an earlier start lives on (pid " + old.front().first +
                            ") and can't be ended");
    }
    if (waited == kPatienceMs) {
      for (const auto& [pid, start] : old) {
        ::kill(static_cast<pid_t>(std::stol(pid)), SIGKILL);
        ++killed;
      }
    }
    ::poll(nullptr, 0, kStepMs);
  }
}

std::vector<pid_t> living_children(pid_t parent) {
  std::vector<pid_t> found;
  auto names = os::list_directory("/proc");
  if (!names.ok()) return found;
  for (const auto& name : *names) {
    pid_t pid = 0;
    auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    auto stat = stat_of(name);
    if (!dead(stat) && stat->parent == parent) found.push_back(pid);
  }
  return found;
}

}  // namespace space::supervise
