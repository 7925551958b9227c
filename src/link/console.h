// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a sandbox writes on its console: read all the time, the newest part kept.
//
// The machine never waits for a reader: the socket is drained as fast as it fills, and a follower that is
// slower than the guest misses the oldest bytes. The bytes are the guest's, neither checked nor escaped; they
// are only ever passed on as bytes. A Console outlives the attachments of its sandbox, so that the text
// before a reattachment is kept.
//
// Resource types; one loop. Posture: hostile-guest.

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <memory>

#include "lib/async/event.h"
#include "lib/async/task.h"
#include "lib/async/task_scope.h"
#include "lib/base/bytes.h"
#include "lib/os/fd.h"

namespace space::link {

inline constexpr std::size_t kConsoleRingBytes = 256u << 10;

// The last kConsoleRingBytes of a stream, by absolute offset. Pure.
class ConsoleRing {
 public:
  void append(ByteView bytes);
  // Bytes ever appended: the offset at which the next one will be.
  [[nodiscard]] std::uint64_t end() const { return end_; }
  // The oldest offset that is kept.
  [[nodiscard]] std::uint64_t begin() const { return end_ - kept_.size(); }
  // At most `max` bytes from `offset` on, which is moved forward to begin() if it is older, and past what is
  // returned.
  Bytes read(std::uint64_t& offset, std::size_t max) const;
  // The last `max` bytes.
  [[nodiscard]] Bytes tail(std::size_t max) const;

 private:
  Bytes kept_;  // oldest byte at start_, wrapping around once it is full
  std::size_t start_ = 0;
  std::uint64_t end_ = 0;
};

class Console {
 public:
  explicit Console(const async::Executor& executor) : changed_(executor) {}
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  [[nodiscard]] const ConsoleRing& ring() const { return ring_; }
  // No more will come: the sandbox was detached.
  [[nodiscard]] bool finished() const { return finished_; }
  void append(ByteView bytes);
  void finish();
  // Wakes after append() and finish(), and without cause.
  async::Task<void> changed() { return changed_.wait(); }

 private:
  ConsoleRing ring_;
  bool finished_ = false;
  async::Event changed_;
};

// Moves bytes from the socket into the console until the socket ends.
class ConsoleReader {
 public:
  // `console` is shared with the followers and the next attachment.
  ConsoleReader(const async::Executor& executor, os::Fd socket, std::shared_ptr<Console> console);
  void start();
  // Takes over what still waits in the socket, at most a ring of it, and closes it.
  async::Task<void> stop();

 private:
  async::Task<void> read_loop();
  // Bytes moved; 0 when nothing waits, -1 at the end.
  std::ptrdiff_t move_some();

  boost::asio::posix::stream_descriptor socket_;
  std::shared_ptr<Console> console_;
  async::TaskScope scope_;
};

}  // namespace space::link
