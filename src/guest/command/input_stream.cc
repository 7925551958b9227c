// SPDX-License-Identifier: Apache-2.0
#include "guest/command/input_stream.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace space::guest {

void InputStream::open(os::Fd sink) {
  sink_ = std::move(sink);
  flush();
}

void InputStream::write(ByteView bytes) {
  if (begin_ >= (64u << 10)) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(begin_));
    begin_ = 0;
  }
  std::size_t take = std::min(bytes.size(), kMaxQueuedBytes - std::min(kMaxQueuedBytes, queued()));
  queue_.insert(queue_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(take));
  if (take < bytes.size()) consumed_(bytes.size() - take);
  flush();
}

void InputStream::finish(std::function<bool()> finished) {
  finished_ = std::move(finished);
  flush();
}

void InputStream::flush() {
  if (!sink_) return;
  std::size_t written = 0;
  while (begin_ < queue_.size()) {
    ssize_t put = ::write(sink_.get(), queue_.data() + begin_, queue_.size() - begin_);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) break;
    if (put < 0) {  // nobody reads any more
      close();
      break;
    }
    begin_ += static_cast<std::size_t>(put);
    written += static_cast<std::size_t>(put);
  }
  if (begin_ == queue_.size()) {
    queue_.clear();
    begin_ = 0;
    if (queue_.capacity() > (64u << 10)) Bytes().swap(queue_);
    if (sink_ && finished_) {
      auto finished = std::exchange(finished_, nullptr);
      if (finished()) close();
    }
  }
  set_waiting(sink_ && queued() != 0);
  if (written != 0) consumed_(written);
}

void InputStream::set_waiting(bool wanted) {
  if (wanted == waiting_) return;
  waiting_ = wanted;
  if (wanted) {
    loop_.watch(sink_.get(), EPOLLOUT, [this](std::uint32_t) { flush(); });
  } else if (sink_) {
    loop_.unwatch(sink_.get());
  }
}

void InputStream::close() {
  set_waiting(false);
  sink_.reset();
  std::size_t dropped = queued();
  Bytes().swap(queue_);
  begin_ = 0;
  if (dropped != 0) consumed_(dropped);
}

}  // namespace space::guest
