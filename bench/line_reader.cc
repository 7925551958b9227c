// SPDX-License-Identifier: Apache-2.0
#include "bench/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace space::bench {

Result<std::string> LineReader::next(int fd, std::chrono::milliseconds limit) {
  auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    if (auto end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now())
            .count();
    pollfd wanted{fd, POLLIN, 0};
    if (left <= 0 || ::poll(&wanted, 1, static_cast<int>(left)) == 0) {
      return make_error(Code::kDeadlineExceeded, "bench.timeout", "nothing was said in time");
    }
    char block[4096];
    ssize_t got = ::read(fd, block, sizeof block);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return make_error(Code::kUnavailable, "bench.ended", "the other side ended early");
    buffer_.append(block, static_cast<std::size_t>(got));
  }
}

}  // namespace space::bench
