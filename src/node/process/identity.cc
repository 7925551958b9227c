// SPDX-License-Identifier: Apache-2.0
#include "node/process/identity.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <string_view>

#include "lib/os/file.h"

namespace space::node::process {

Result<std::uint64_t> parse_start_ticks(const std::string& stat) {
  // "pid (name) state ppid ...": the name may hold spaces and brackets, so count from the last one.
  auto close = stat.rfind(')');
  if (close == std::string::npos)
    return make_error(Code::kInternal, "node.process", "unexpected form of /proc/PID/stat");
  std::string_view rest = std::string_view(stat).substr(close + 1);
  constexpr int kFieldAfterName = 3;
  constexpr int kStartTime = 22;
  std::size_t at = 0;
  for (int field = kFieldAfterName; field <= kStartTime; ++field) {
    at = rest.find_first_not_of(' ', at);
    if (at == std::string_view::npos) break;
    std::size_t end = std::min(rest.find_first_of(" \n", at), rest.size());
    if (field == kStartTime) {
      std::uint64_t ticks = 0;
      auto [stop, failed] = std::from_chars(rest.data() + at, rest.data() + end, ticks);
      if (failed == std::errc() && stop == rest.data() + end) return ticks;
    }
    at = end;
  }
  return make_error(Code::kInternal, "node.process", "unexpected form of /proc/PID/stat");
}

Result<std::string> boot_id() {
  SPACE_TRY(std::string text, os::read_file("/proc/sys/kernel/random/boot_id"));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Result<Identity> identify(pid_t pid) {
  auto stat = os::read_file("/proc/" + std::to_string(pid) + "/stat");
  if (!stat.ok())
    return make_error(Code::kNotFound, "node.process_gone", "process " + std::to_string(pid) + " has ended");
  Identity identity;
  identity.pid = pid;
  SPACE_TRY(identity.start_ticks, parse_start_ticks(*stat));
  SPACE_TRY(identity.boot_id, boot_id());
  return identity;
}

Result<os::Fd> open_pid(pid_t pid) {
  os::Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) {
    return errno_error(errno, errno == ESRCH ? "node.process_gone" : "node.process",
                       "open process " + std::to_string(pid));
  }
  return pidfd;
}

Result<os::Fd> open_process(const Identity& identity) {
  SPACE_TRY(os::Fd pidfd, open_pid(identity.pid));
  // The descriptor pins the pid; only now does comparing prove something.
  SPACE_TRY(Identity present, identify(identity.pid));
  if (present != identity || wait_for_exit(pidfd.get(), std::chrono::steady_clock::now())) {
    return make_error(Code::kNotFound, "node.process_gone",
                      "process " + std::to_string(identity.pid) + " has ended");
  }
  return pidfd;
}

bool wait_for_exit(int pidfd, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd waiter{pidfd, POLLIN, 0};
    int ready = ::poll(&waiter, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;
    return ready > 0;
  }
}

void send_signal(int pidfd, int signal) {
  ::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0);
}

Exit reap(int pidfd) {
  siginfo_t info{};
  Exit exit;
  if (::waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0)
    return exit;
  exit.known = true;
  if (info.si_code == CLD_EXITED) {
    exit.exit_code = info.si_status;
  } else {
    exit.signal = info.si_status;
  }
  return exit;
}

}  // namespace space::node::process
