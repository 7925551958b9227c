// SPDX-License-Identifier: Apache-2.0
#include "guest/command/output_stream.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace space::guest {
namespace {
constexpr std::size_t kReadBytes = 64u << 10;
// Output that comes this fast is gathered for kGather.
constexpr std::size_t kMuchBytes = 512;
constexpr std::chrono::milliseconds kFast{3};
constexpr std::chrono::milliseconds kGather{1};
}  // namespace

void OutputStream::open(os::Fd source) {
  source_ = std::move(source);
  set_reading(true);
}

void OutputStream::close() {
  loop_.cancel(std::exchange(gather_timer_, 0));
  set_reading(false);
  source_.reset();
}

void OutputStream::set_reading(bool wanted) {
  if (wanted == reading_ || !source_ || (wanted && gather_timer_ != 0)) return;
  reading_ = wanted;
  // Unwatched altogether while blocked: epoll reports a hang-up whether asked or not.
  if (wanted) {
    loop_.watch(source_.get(), EPOLLIN, [this](std::uint32_t) { on_ready(); });
  } else {
    loop_.unwatch(source_.get());
  }
}

void OutputStream::on_ready() {
  Instant now = std::chrono::steady_clock::now();
  bool fast = now - last_read_ < kFast;
  if (!drain_once()) return;
  last_read_ = now;
  if (fast && source_ && last_bytes_ >= kMuchBytes && last_bytes_ < kReadBytes) gather();
  changed_();
}

void OutputStream::gather() {
  set_reading(false);
  gather_timer_ = loop_.after(kGather, [this] {
    gather_timer_ = 0;
    set_reading(true);
  });
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
  last_bytes_ = static_cast<std::size_t>(got);
  ring_.append(ByteView(buffer).first(last_bytes_));
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
