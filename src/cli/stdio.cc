// SPDX-License-Identifier: Apache-2.0
#include "cli/stdio.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>

#include "lib/os/file.h"

namespace space::cli {
namespace {

Result<std::size_t> read_blocking(int fd, int wake, std::span<std::byte> out) {
  for (;;) {
    pollfd watched[2] = {{fd, POLLIN, 0}, {wake, POLLIN, 0}};
    if (::poll(watched, 2, -1) < 0) {
      if (errno == EINTR) continue;
      return errno_error(errno, "os.file", "wait for input");
    }
    if (watched[1].revents != 0) return std::size_t{0};
    ssize_t got = ::read(fd, out.data(), out.size());
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR && errno != EAGAIN) return errno_error(errno, "os.file", "read input");
  }
}

Result<void> write_blocking(int fd, ByteView data) {
  while (!data.empty()) {
    ssize_t put = ::write(fd, data.data(), data.size());
    if (put >= 0) {
      data = data.subspan(static_cast<std::size_t>(put));
    } else if (errno == EAGAIN) {  // somebody else made it non-blocking
      pollfd watched{fd, POLLOUT, 0};
      ::poll(&watched, 1, -1);
    } else if (errno != EINTR) {
      return errno_error(errno, "os.file", "write output");
    }
  }
  return {};
}

}  // namespace

InputReader::InputReader(async::BlockingPool& pool, int fd)
    : pool_(pool), fd_(fd), wake_(::eventfd(0, EFD_CLOEXEC)) {}

async::Task<Result<std::size_t>> InputReader::read(std::span<std::byte> out) {
  int fd = fd_;
  int wake = wake_.get();
  co_return co_await pool_.run([fd, wake, out] { return read_blocking(fd, wake, out); });
}

void InputReader::stop() {
  std::uint64_t one = 1;
  [[maybe_unused]] ssize_t ignored = ::write(wake_.get(), &one, sizeof one);
}

async::Task<Result<void>> OutputWriter::write(int fd, ByteView data) {
  co_return co_await pool_.run([fd, data] { return write_blocking(fd, data); });
}

}  // namespace space::cli
