// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads what a command writes to one of its streams into an OutputRing.
//
// A command that writes much in small pieces is read at intervals, so that the pieces gather in the pipe:
// waking for each would cost more than the command's own work. The first bytes after a pause are read at
// once.
//
// While somebody is watching, bytes that they haven't taken are never dropped: when the ring is full of them,
// reading stops and the command blocks. While nobody is, reading goes on and the oldest bytes are dropped.
// Resource type.

#include <cstdint>
#include <functional>
#include <optional>

#include "guest/command/output_ring.h"
#include "guest/core/loop.h"
#include "lib/os/fd.h"

namespace space::guest {

class OutputStream {
 public:
  // `changed` is called after bytes or the end arrived. `loop` and `budget` outlive the stream.
  OutputStream(Loop& loop, OutputBudget& budget, std::function<void()> changed)
      : loop_(loop), ring_(budget), changed_(std::move(changed)) {}
  ~OutputStream() { close(); }
  OutputStream(const OutputStream&) = delete;
  OutputStream& operator=(const OutputStream&) = delete;

  // `source` is non-blocking: the read end of a pipe, or a PTY's master.
  void open(os::Fd source);
  void close();
  // No writer is left, or the stream was never opened.
  [[nodiscard]] bool at_end() const { return !source_; }
  // Is reading stopped because the watcher hasn't taken enough?
  [[nodiscard]] bool blocked() const { return source_ && !reading_ && gather_timer_ == 0; }
  [[nodiscard]] const OutputRing& ring() const { return ring_; }

  // Somebody watches from `offset` on, or as near to it as the ring still holds.
  void watch_from(std::uint64_t offset);
  // Offset of the watcher's next byte; 0 without one.
  [[nodiscard]] std::uint64_t watched_offset() const { return taken_.value_or(0); }
  void unwatch();
  // The watcher's next bytes; empty when it has all that there is.
  [[nodiscard]] ByteView next() const { return taken_ ? ring_.from(*taken_) : ByteView(); }
  void take(std::size_t bytes);
  // Reads what is there without waiting for the loop; false when nothing was.
  bool drain_once();
  // Forgets the bytes held.
  void drop_output() { ring_.clear(); }

 private:
  void set_reading(bool wanted);
  void on_ready();
  void gather();

  Loop& loop_;
  OutputRing ring_;
  std::function<void()> changed_;
  os::Fd source_;
  bool reading_ = false;
  Instant last_read_;
  std::size_t last_bytes_ = 0;
  Loop::TimerId gather_timer_ = 0;
  std::optional<std::uint64_t> taken_;  // offset of the watcher's next byte
};

}  // namespace space::guest
