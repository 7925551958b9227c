// SPDX-License-Identifier: Apache-2.0
#pragma once
// The owner of running coroutines. Every task is spawned into a scope; nobody detaches one.
//
//   scope_.spawn(serve());              // void tasks; an escaping exception other than cancellation aborts
//   co_await scope_.stop();             // refuses new tasks, cancels the running ones, waits for them
//
// A scope may be destroyed while tasks are still on their way out; what those tasks refer to must outlive
// them, so stop() the scope before its owner goes, or let the tasks share ownership. Declare it last in its
// owner. Resource type; one loop.

#include <boost/asio/cancellation_signal.hpp>
#include <list>
#include <memory>

#include "lib/async/event.h"
#include "lib/async/task.h"

namespace space::async {

class TaskScope {
 public:
  explicit TaskScope(const Executor& executor) : state_(std::make_shared<State>(executor)) {}
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
  [[nodiscard]] std::size_t running() const { return state_->signals.size(); }
  [[nodiscard]] bool stopping() const { return state_->stopping; }

 private:
  // Shared with the completion of every task: the last one may run after the scope has gone.
  struct State {
    explicit State(const Executor& loop) : executor(loop), changed(loop) {}
    Executor executor;
    Event changed;
    std::list<boost::asio::cancellation_signal> signals;
    bool stopping = false;
  };
  std::shared_ptr<State> state_;
};

}  // namespace space::async
