// SPDX-License-Identifier: Apache-2.0
#pragma once
// A condition on one loop: coroutines wait, notify_all() wakes them. Like a condition variable it may wake
// without cause, so wait in a loop over the condition. Resource type; must outlive its waiters.

#include <boost/asio/steady_timer.hpp>
#include <optional>

#include "lib/async/task.h"

namespace space::async {

class Event {
 public:
  explicit Event(const Executor& executor) : timer_(executor, boost::asio::steady_timer::time_point::max()) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  Task<void> wait();
  // False when the deadline passed first.
  Task<bool> wait_until(std::chrono::steady_clock::time_point deadline);
  void notify_all() { timer_.cancel(); }

 private:
  boost::asio::steady_timer timer_;
};

}  // namespace space::async
