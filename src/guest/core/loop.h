// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one event loop of the daemon: descriptors (epoll), timers, and work posted from pool threads.
//
// Everything except post() is for the loop's own thread. A callback may watch, unwatch, add and cancel
// anything, itself included. Resource type.

#include <sys/epoll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/os/fd.h"

namespace space::guest {

using Instant = std::chrono::steady_clock::time_point;

class Loop {
 public:
  using FdCallback = std::function<void(std::uint32_t events)>;
  using Callback = std::function<void()>;
  // 0 is no timer.
  using TimerId = std::uint64_t;

  // Errors: guest.internal when the kernel refuses an epoll or event descriptor.
  static Result<std::unique_ptr<Loop>> create();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Calls `callback` with the epoll events of `fd` until unwatch(). The caller keeps `fd` open until then.
  // Watching a descriptor again replaces events and callback.
  void watch(int fd, std::uint32_t events, FdCallback callback);
  // After this the callback isn't called again, not even for events that were already collected.
  void unwatch(int fd);

  TimerId after(std::chrono::milliseconds delay, Callback callback);
  void cancel(TimerId timer);

  // At the end of this round, after every callback of it.
  void defer(Callback callback) { deferred_.push_back(std::move(callback)); }
  // From any thread: run `callback` on the loop soon.
  void post(Callback callback);
  // Runs what has been posted so far, now.
  void run_posted();

  // Until stop(). One round waits for at least one event.
  void run();
  void stop() { running_ = false; }

 private:
  struct Watched {
    std::uint32_t serial;
    FdCallback callback;
  };

  Loop(os::Fd epoll, os::Fd wake) : epoll_(std::move(epoll)), wake_(std::move(wake)) {}
  [[nodiscard]] int wait_ms() const;
  void run_timers();
  void run_deferred();

  os::Fd epoll_;
  os::Fd wake_;
  bool running_ = false;
  std::uint32_t next_serial_ = 1;
  std::unordered_map<int, std::shared_ptr<Watched>>
      watched_;  // shared: a callback may unwatch itself while it runs
  TimerId next_timer_ = 1;
  std::map<std::pair<Instant, TimerId>, Callback> timers_;
  std::unordered_map<TimerId, Instant> timer_times_;
  std::vector<Callback> deferred_;
  std::mutex posted_mutex_;
  std::vector<Callback> posted_;
};

}  // namespace space::guest
