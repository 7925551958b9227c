// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <thread>

#include "lib/os/file.h"
#include "node/slot/internal/cgroup_files.h"

namespace space::node::slot::internal {
namespace {

constexpr const char* kReason = "node.cgroup";
// How long the kernel may take to let go of tasks that have ended.
constexpr auto kRemovePatience = std::chrono::seconds(5);
constexpr auto kFirstPause = std::chrono::microseconds(200);
constexpr auto kLongestPause = std::chrono::microseconds(10'000);

}  // namespace

Result<void> write_value(const std::string& path, const std::string& value) {
  os::Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return errno_error(errno, kReason, "open " + path);
  if (::write(file.get(), value.data(), value.size()) != static_cast<ssize_t>(value.size())) {
    return errno_error(errno, kReason, "write " + value + " to " + path);
  }
  return {};
}

Result<std::uint64_t> read_number(const std::string& path) {
  SPACE_TRY(std::string text, os::read_file(path));
  std::uint64_t number = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc()) return make_error(Code::kInternal, kReason, path + " holds no number");
  return number;
}

std::uint64_t read_count(const std::string& path, const std::string& key) {
  auto text = os::read_file(path);
  if (!text.ok()) return 0;
  std::string lines = "\n" + *text;
  auto at = lines.find("\n" + key + " ");
  std::uint64_t number = 0;
  if (at == std::string::npos) return 0;
  std::from_chars(lines.data() + at + key.size() + 2, lines.data() + lines.size(), number);
  return number;
}

Result<void> make_group(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return errno_error(errno, kReason, "make " + path);
  return {};
}

Result<void> remove_group(const std::string& path) {
  auto deadline = std::chrono::steady_clock::now() + kRemovePatience;
  for (auto pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    if (::rmdir(path.c_str()) == 0 || errno == ENOENT) return {};
    if (errno != EBUSY && errno != ENOTEMPTY) return errno_error(errno, kReason, "remove " + path);
    if (std::chrono::steady_clock::now() >= deadline) {
      return make_error(Code::kFailedPrecondition, "node.cgroup_busy", path + " still has processes");
    }
    std::this_thread::sleep_for(pause);
  }
}

Result<std::vector<pid_t>> processes(const std::string& path) {
  std::vector<pid_t> pids;
  auto text = os::read_file(path + "/cgroup.procs");
  if (!text.ok()) {
    // ENODEV: removed between open and read.
    if (text.error().code == Code::kNotFound || !os::exists(path)) return pids;
    return std::move(text).error();
  }
  const char* at = text->data();
  const char* end = at + text->size();
  while (at < end) {
    pid_t pid = 0;
    auto [stop, failed] = std::from_chars(at, end, pid);
    if (failed != std::errc()) break;
    // 0 stands for a process that this pid namespace can't see.
    if (pid > 0) pids.push_back(pid);
    at = std::find(stop, end, '\n') + 1;
  }
  return pids;
}

Result<std::vector<std::string>> groups_in(const std::string& path) {
  std::vector<std::string> groups;
  auto names = os::list_directory(path);
  if (!names.ok()) {
    if (names.error().code == Code::kNotFound) return groups;
    return std::move(names).error();
  }
  for (auto& name : *names) {
    struct stat info{};
    if (::lstat((path + "/" + name).c_str(), &info) == 0 && S_ISDIR(info.st_mode))
      groups.push_back(std::move(name));
  }
  return groups;
}

Result<void> until_empty(const std::string& group, std::chrono::milliseconds limit,
                         const std::function<void()>& kill) {
  auto deadline = std::chrono::steady_clock::now() + limit;
  for (auto pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    SPACE_TRY(auto left, processes(group));
    if (left.empty()) return {};
    if (std::chrono::steady_clock::now() >= deadline) {
      return make_error(
          Code::kDeadlineExceeded, "node.cgroup_busy",
          std::to_string(left.size()) + " processes in " + group + " did not end after SIGKILL");
    }
    kill();
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace space::node::slot::internal
