// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writes what the host sends to a command's standard input (or a socket), as fast as it is taken. Resource
// type.

#include <cstddef>
#include <functional>

#include "guest/core/loop.h"
#include "lib/base/bytes.h"
#include "lib/os/fd.h"

namespace space::guest {

class InputStream {
 public:
  // Beyond this, bytes are dropped: only reached when many attachments ended one after another while the
  // command read nothing, since each may have one window (256 KiB) on its way.
  static constexpr std::size_t kMaxQueuedBytes = 512u << 10;

  // `consumed` is told how many bytes were written (or dropped, after the reader has gone).
  InputStream(Loop& loop, std::function<void(std::size_t)> consumed)
      : loop_(loop), consumed_(std::move(consumed)) {}
  ~InputStream() { close(); }
  InputStream(const InputStream&) = delete;
  InputStream& operator=(const InputStream&) = delete;

  // `sink` is non-blocking.
  void open(os::Fd sink);
  void write(ByteView bytes);
  // Calls `finished` once everything before has been written, and closes the sink unless `finished` says
  // false.
  void finish(std::function<bool()> finished);
  void close();
  [[nodiscard]] bool open() const { return sink_.valid(); }
  [[nodiscard]] std::size_t queued() const { return queue_.size() - begin_; }

 private:
  void flush();
  void set_waiting(bool wanted);

  Loop& loop_;
  std::function<void(std::size_t)> consumed_;
  os::Fd sink_;
  Bytes queue_;
  std::size_t begin_ = 0;
  bool waiting_ = false;
  std::function<bool()> finished_;
};

}  // namespace space::guest
