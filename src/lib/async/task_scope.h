// SPDX-License-Identifier: Apache-2.0
#pragma once
// The owner of running coroutines. Every task is spawned into a scope; nobody detaches one.
//
//   scope_.spawn(serve());              // void tasks; an escaping exception other than cancellation aborts
//   co_await scope_.stop();             // refuses new tasks, cancels the running ones, waits for them
//
// Destroying a scope with running tasks is a broken invariant, except when its loop has stopped for good.
// Declare it last in its owner, so that it goes first. Resource type; one loop.

#include <boost/asio/cancellation_signal.hpp>
#include <list>

#include "lib/async/event.h"
#include "lib/async/task.h"

namespace space::async {

class TaskScope {
 public:
  explicit TaskScope(const Executor& executor) : executor_(executor), changed_(executor) {}
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;

  // Starts `task` on the loop, not before this returns. After stop() has begun the task is dropped unstarted.
  void spawn(Task<void> task);
  // Cancels without waiting or refusing further tasks.
  void cancel_all();
  // Idempotent.
  Task<void> stop();
  // Waits until nothing runs, without cancelling.
  Task<void> drain();
  [[nodiscard]] std::size_t running() const { return signals_.size(); }
  [[nodiscard]] bool stopping() const { return stopping_; }

 private:
  Executor executor_;
  Event changed_;
  std::list<boost::asio::cancellation_signal> signals_;
  bool stopping_ = false;
};

}  // namespace space::async
