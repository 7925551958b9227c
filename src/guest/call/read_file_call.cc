// SPDX-License-Identifier: Apache-2.0
#include "guest/call/read_file_call.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "guest/file/file_info.h"
#include "guest/file/path.h"

namespace space::guest {

Result<guestapi::FileInfoT> ReadFileCall::open() {
  SPACE_CHECK_OK(check_path(request_.path));
  // Not blocking: opening a pipe would wait for a writer.
  fd_ = os::Fd(::open(request_.path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!fd_) return file_error(errno, "open", request_.path);
  struct stat status{};
  if (::fstat(fd_.get(), &status) != 0) return file_error(errno, "stat", request_.path);
  if (S_ISDIR(status.st_mode)) return file_error(EISDIR, "read", request_.path);
  if (!S_ISREG(status.st_mode)) {
    return make_error(Code::kFailedPrecondition, "guest.not_a_regular_file",
                      "only regular files can be read; use a command for devices and pipes");
  }
  if (request_.offset > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()) ||
      (request_.offset != 0 && ::lseek(fd_.get(), static_cast<off_t>(request_.offset), SEEK_SET) < 0)) {
    return Error{Code::kInvalidArgument, "guest.malformed_offset", "the file can't be read from that offset",
                 "offset"};
  }
  left_ = request_.length == 0 ? std::numeric_limits<std::uint64_t>::max() : request_.length;
  return file_info(status, AT_FDCWD, request_.path, request_.path);
}

ReadFileCall::Chunk ReadFileCall::read() {
  Chunk chunk;
  chunk.bytes.resize(std::min<std::uint64_t>(kChunkBytes, left_));
  std::size_t filled = 0;
  while (filled < chunk.bytes.size()) {
    ssize_t got = ::read(fd_.get(), chunk.bytes.data() + filled, chunk.bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) chunk.outcome = file_error(errno, "read", request_.path);
    if (got <= 0) {
      chunk.at_end = true;
      break;
    }
    filled += static_cast<std::size_t>(got);
  }
  chunk.bytes.resize(filled);
  left_ -= filled;
  chunk.at_end |= left_ == 0;
  return chunk;
}

void ReadFileCall::start() {
  struct First {
    Result<guestapi::FileInfoT> info;
    Chunk chunk;
  };
  auto first = std::make_shared<First>();
  run(
      [this, first] {
        first->info = open();
        if (first->info.ok()) first->chunk = read();
      },
      [this, first] {
        if (!first->info.ok()) return finish(std::move(first->info).error());
        send(std::move(first->info).value());
        next_ = std::move(first->chunk.bytes);
        at_end_ = first->chunk.at_end;
        outcome_ = std::move(first->chunk.outcome);
        want_pump();
      });
}

void ReadFileCall::read_ahead() {
  if (busy() || at_end_ || !next_.empty()) return;
  auto chunk = std::make_shared<Chunk>();
  run([this, chunk] { *chunk = read(); },
      [this, chunk] {
        next_ = std::move(chunk->bytes);
        at_end_ = chunk->at_end;
        outcome_ = std::move(chunk->outcome);
        want_pump();
      });
}

bool ReadFileCall::pump_more() {
  if (sent_ == ready_.size()) {
    ready_ = std::exchange(next_, {});
    sent_ = 0;
  }
  read_ahead();
  if (sent_ < ready_.size()) {
    std::size_t took = send_data(1, ByteView(ready_).subspan(sent_));
    sent_ += took;
    if (sent_ < ready_.size()) return took != 0;
  }
  if (!next_.empty()) return true;
  if (at_end_ && !busy()) finish(std::exchange(outcome_, {}));
  return false;
}

}  // namespace space::guest
