// SPDX-License-Identifier: Apache-2.0
#include "node/doctor/check.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "lib/base/error.h"
#include "lib/os/fd.h"

namespace space::node::doctor {
namespace {

// First byte: the status; then the text.
void send(int pipe, const Finding& finding) {
  std::string message(1, static_cast<char>(finding.status));
  message += finding.found;
  [[maybe_unused]] ssize_t ignored = ::write(pipe, message.data(), message.size());
}

}  // namespace

Finding in_child(int namespaces, Status otherwise, const std::function<Finding()>& look,
                 std::chrono::milliseconds limit) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {otherwise, errno_error(errno, "", "pipe").message};
  os::Fd read_end(ends[0]);
  os::Fd write_end(ends[1]);
  // doctor has no threads, so the child may do anything.
  pid_t pid = ::fork();
  if (pid < 0) return {otherwise, errno_error(errno, "", "fork").message};
  if (pid == 0) {
    if (namespaces != 0 && ::unshare(namespaces) != 0) {
      send(write_end.get(),
           {otherwise, errno_error(errno, "", "could not be tried, new namespaces").message});
      ::_exit(0);
    }
    if ((namespaces & CLONE_NEWNS) != 0) ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    send(write_end.get(), look());
    ::_exit(0);
  }
  write_end.reset();
  std::string message;
  pollfd waiter{read_end.get(), POLLIN, 0};
  if (::poll(&waiter, 1, static_cast<int>(limit.count())) > 0) {
    char buffer[2048];
    ssize_t got = ::read(read_end.get(), buffer, sizeof buffer);
    if (got > 0) message.assign(buffer, static_cast<std::size_t>(got));
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  if (message.empty())
    return {otherwise, "the attempt gave no answer within " + std::to_string(limit.count()) + " ms"};
  return {static_cast<Status>(message[0]), message.substr(1)};
}

}  // namespace space::node::doctor
