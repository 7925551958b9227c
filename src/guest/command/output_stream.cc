// SPDX-License-Identifier: Apache-2.0
#include "guest/command/output_stream.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace space::guest {
namespace {
constexpr std::size_t kReadBytes = 64u << 10;
}

void OutputStream::open(os::Fd source) {
  source_ = std::move(source);
  set_reading(true);
}

void OutputStream::close() {
  set_reading(false);
  source_.reset();
}

void OutputStream::set_reading(bool wanted) {
  if (wanted == reading_ || !source_) return;
  reading_ = wanted;
  // Unwatched altogether while blocked: epoll reports a hang-up whether asked or not.
  if (wanted) {
    loop_.watch(source_.get(), EPOLLIN, [this](std::uint32_t) { on_ready(); });
  } else {
    loop_.unwatch(source_.get());
  }
}

void OutputStream::on_ready() {
  if (drain_once()) changed_();
}

bool OutputStream::drain_once() {
  if (!source_) return false;
  int waiting = 0;
  if (::ioctl(source_.get(), FIONREAD, &waiting) != 0 || waiting <= 0) waiting = 1;
  std::size_t wanted = std::min(static_cast<std::size_t>(waiting), kReadBytes);
  std::size_t room = ring_.room(taken_.value_or(ring_.end()), wanted);
  if (room == 0) {
    set_reading(false);
    return false;
  }
  std::array<std::byte, kReadBytes> buffer;
  ssize_t got = ::read(source_.get(), buffer.data(), std::min(room, wanted));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {  // a PTY whose last terminal was closed says EIO
    close();
    return true;
  }
  ring_.append(ByteView(buffer).first(static_cast<std::size_t>(got)));
  return true;
}

void OutputStream::watch_from(std::uint64_t offset) {
  taken_ = std::clamp(offset, ring_.begin(), ring_.end());
  set_reading(true);  // an earlier watcher may have been slow
}

void OutputStream::unwatch() {
  taken_.reset();
  set_reading(true);
}

void OutputStream::take(std::size_t bytes) {
  if (!taken_) return;
  *taken_ += bytes;
  if (bytes != 0) set_reading(true);
}

}  // namespace space::guest
