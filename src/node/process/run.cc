// SPDX-License-Identifier: Apache-2.0
#include "node/process/run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>

#include "lib/os/fd.h"
#include "lib/os/file.h"
#include "node/process/identity.h"
#include "node/process/spawn.h"

namespace space::node::process {
namespace {

using Clock = std::chrono::steady_clock;

// The input as a file, so that no writer has to be interleaved with the reader.
Result<os::Fd> input_file(const std::string& input) {
  if (input.empty()) return os::open_file("/dev/null", O_RDONLY);
  os::Fd file(::memfd_create("input", MFD_CLOEXEC));
  if (!file) return errno_error(errno, "node.program", "memfd_create");
  SPACE_CHECK_OK(os::write_all(file.get(), as_bytes(input)));
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

// Reads until end of file or `deadline`; false when the deadline came first.
bool drain(int pipe, Clock::time_point deadline, std::size_t limit, std::string& output) {
  for (;;) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd waiter{pipe, POLLIN, 0};
    int ready = ::poll(&waiter, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    char buffer[8192];
    ssize_t got = ::read(pipe, buffer, sizeof buffer);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return true;
    output.append(buffer, std::min(static_cast<std::size_t>(got), limit - std::min(limit, output.size())));
  }
}

}  // namespace

Result<Finished> run(const Run& what) {
  SPACE_TRY(os::Fd input, input_file(what.input));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error(errno, "node.program", "pipe");
  os::Fd read_end(ends[0]);
  os::Fd write_end(ends[1]);
  SPACE_TRY(pid_t pid, spawn(what.argv, {input.get(), write_end.get(), write_end.get()}));
  write_end.reset();
  Finished finished;
  auto deadline = Clock::now() + what.limit;
  bool in_time = drain(read_end.get(), deadline, what.max_output_bytes, finished.output);
  auto pidfd = open_pid(pid);
  // The output may be closed long before the program ends.
  in_time = in_time && pidfd.ok() && wait_for_exit(pidfd->get(), deadline);
  if (!in_time) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) {
    return make_error(Code::kDeadlineExceeded, "node.program_timeout",
                      what.argv[0] + " did not end in time and was killed");
  }
  finished.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return finished;
}

}  // namespace space::node::process
