// SPDX-License-Identifier: Apache-2.0
#include "node/slot/jail_process.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "lib/os/file.h"
#include "lib/os/unix_socket.h"
#include "node/slot/internal/jail_fds.h"

namespace space::node::slot {
namespace {

constexpr std::size_t kMaxPrinted = 4096;

// Descriptors in their places for the program. Only system calls: this runs in a clone of a process with
// threads.
[[noreturn]] void become_program(int program, const int* sources, std::size_t count) {
  // First out of the way of the places, then into them.
  constexpr int kAbove = 64;
  int high[3 + 2 + kMaxInheritedFds];
  for (std::size_t i = 0; i < count; ++i) high[i] = ::fcntl(sources[i], F_DUPFD_CLOEXEC, kAbove);
  int program_high = ::fcntl(program, F_DUPFD_CLOEXEC, kAbove);
  for (std::size_t i = 0; i < count; ++i) {
    if (high[i] < 0 || ::dup2(high[i], static_cast<int>(i)) < 0) ::_exit(internal::kCloneFailed);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  char name[] = "space-node";
  char mode[] = "jail";
  char* argv[] = {name, mode, nullptr};
  char* environment[] = {nullptr};
  ::syscall(SYS_execveat, program_high, "", argv, environment, AT_EMPTY_PATH);
  ::_exit(internal::kCloneFailed);
}

Result<os::Fd> plan_file(const JailPlan& plan) {
  os::Fd file(::memfd_create("jail-plan", MFD_CLOEXEC));
  if (!file) return errno_error(errno, "node.jail", "memfd_create");
  SPACE_CHECK_OK(os::write_all(file.get(), as_bytes(to_json(plan))));
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

}  // namespace

Result<JailProcess> start_jail(const std::string& program, const JailPlan& plan,
                               const std::vector<int>& inherited) {
  if (inherited.size() > kMaxInheritedFds)
    return make_error(Code::kInternal, "node.jail", "too many descriptors to inherit");
  SPACE_TRY(os::Fd executable, os::open_file(program, O_PATH));
  SPACE_TRY(os::Fd plan_fd, plan_file(plan));
  SPACE_TRY(os::Fd null, os::open_file("/dev/null", O_RDWR));
  SPACE_TRY(auto control, os::unix_pair());
  // The jail side waits in read(2).
  ::fcntl(control.second.get(), F_SETFL, 0);
  int ends[2];
  // Non-blocking at both ends: a VMM that prints must never wait for us.
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return errno_error(errno, "node.jail", "pipe");
  os::Fd read_end(ends[0]);
  os::Fd write_end(ends[1]);

  std::array<int, 3 + 2 + kMaxInheritedFds> sources{};
  std::size_t count = 0;
  for (int fd : {null.get(), null.get(), write_end.get(), plan_fd.get(), control.second.get()})
    sources[count++] = fd;
  static_assert(kFirstInheritedFd == internal::kControlFd + 1 && internal::kPlanFd == 3);
  for (int fd : inherited) sources[count++] = fd;

  int pidfd = -1;
  clone_args arguments{};
  arguments.flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD;
  arguments.pidfd =
      reinterpret_cast<std::uint64_t>(&pidfd);  // SAFETY: the kernel stores an int there before clone returns
  arguments.exit_signal = SIGCHLD;
  // SAFETY: without CLONE_VM this is fork: the child has its own copy and makes only system calls.
  long pid = ::syscall(SYS_clone3, &arguments, sizeof arguments);
  if (pid < 0) return errno_error(errno, "node.jail", "clone into new namespaces");
  if (pid == 0) become_program(executable.get(), sources.data(), count);

  JailProcess jail;
  jail.pidfd_ = os::Fd(pidfd);
  jail.control_ = std::move(control.first);
  jail.stderr_ = std::move(read_end);
  SPACE_TRY(jail.identity_, process::identify(static_cast<pid_t>(pid)));
  return jail;
}

Result<void> JailProcess::release(std::chrono::milliseconds limit) {
  SPACE_TRY(std::size_t sent, os::send_with_fds(control_.get(), as_bytes("g"), {}));
  if (sent != 1) return make_error(Code::kInternal, "node.jail", "the jail does not listen");
  // The jail's end closes by itself at execve; before that it may tell what went wrong.
  std::string said;
  auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now())
            .count();
    if (left <= 0) {
      return make_error(Code::kDeadlineExceeded, "node.jail_timeout",
                        "the jail was not ready within " + std::to_string(limit.count()) + " ms");
    }
    pollfd waiter{control_.get(), POLLIN, 0};
    int ready = ::poll(&waiter, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) continue;
    char buffer[1024];
    ssize_t got = ::read(control_.get(), buffer, sizeof buffer);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) break;
    said.append(buffer, static_cast<std::size_t>(got));
  }
  control_.reset();
  if (said.empty() && process::wait_for_exit(pidfd_.get(), std::chrono::steady_clock::now()))
    said = "it ended before it was ready";
  if (!said.empty()) return make_error(Code::kInternal, "node.jail", "cannot make the jail: " + said);
  return {};
}

std::string JailProcess::printed() {
  std::string text;
  char buffer[kMaxPrinted];
  ssize_t got = ::read(stderr_.get(), buffer, sizeof buffer);
  if (got > 0) text.assign(buffer, static_cast<std::size_t>(got));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return escape(text, kMaxPrinted);
}

}  // namespace space::node::slot
