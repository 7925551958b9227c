// SPDX-License-Identifier: Apache-2.0
#include "node/process/child.h"

#include <fcntl.h>

#include <cerrno>
#include <csignal>

#include "lib/os/file.h"
#include "node/process/spawn.h"

namespace space::node::process {

Child::~Child() {
  if (!pidfd_) return;
  send_signal(pidfd_.get(), SIGKILL);
  wait_for_exit(pidfd_.get(), std::chrono::steady_clock::now() + std::chrono::seconds(5));
  reap(pidfd_.get());
}

Result<Exit> Child::wait(std::chrono::milliseconds limit) {
  if (!wait_for_exit(pidfd_.get(), std::chrono::steady_clock::now() + limit)) {
    return make_error(Code::kDeadlineExceeded, "node.program_timeout",
                      "a helper program did not end in time");
  }
  Exit exit = reap(pidfd_.get());
  pidfd_.reset();
  return exit;
}

Result<Child> start_child(const std::vector<std::string>& argv) {
  SPACE_TRY(os::Fd null, os::open_file("/dev/null", O_RDONLY));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error(errno, "node.program", "pipe");
  Child child;
  child.output_ = os::Fd(ends[0]);
  os::Fd write_end(ends[1]);
  ::fcntl(child.output_.get(), F_SETFL, O_NONBLOCK);
  SPACE_TRY(child.pid_, spawn(argv, {null.get(), write_end.get(), -1}));
  SPACE_TRY(child.pidfd_, open_pid(child.pid_));
  return child;
}

}  // namespace space::node::process
