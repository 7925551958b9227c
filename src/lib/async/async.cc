// SPDX-License-Identifier: Apache-2.0
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/multiple_exceptions.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "lib/async/event.h"
#include "lib/async/task.h"
#include "lib/async/task_scope.h"
#include "lib/base/check.h"

namespace space::async {
namespace asio = boost::asio;

namespace {

// Cancellation is the one exception that may cross a task's edge. A race of two tasks that are both cancelled
// wraps it.
void check_cancellation(std::exception_ptr error) {
  for (;;) {
    try {
      std::rethrow_exception(error);
    } catch (const asio::multiple_exceptions& several) {
      error = several.first_exception();
    } catch (const boost::system::system_error& failure) {
      SPACE_CHECK(failure.code() == asio::error::operation_aborted);
      return;
    }
  }
}

}  // namespace

Task<void> sleep_for(std::chrono::milliseconds duration) {
  asio::steady_timer timer(co_await asio::this_coro::executor, duration);
  co_await timer.async_wait(asio::use_awaitable);
}

Task<void> Event::wait() {
  boost::system::error_code ignored;  // operation_aborted is the wake-up
  co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  // A cancelled coroutine must not mistake its own cancellation for a notification.
  if ((co_await asio::this_coro::cancellation_state).cancelled() != asio::cancellation_type::none) {
    throw boost::system::system_error(asio::error::operation_aborted);
  }
}

Task<bool> Event::wait_until(std::chrono::steady_clock::time_point deadline) {
  if (std::chrono::steady_clock::now() >= deadline) co_return false;
  using boost::asio::experimental::awaitable_operators::operator||;
  asio::steady_timer limit(co_await asio::this_coro::executor, deadline);
  auto outcome = co_await (wait() || limit.async_wait(asio::use_awaitable));
  co_return outcome.index() == 0;
}

void TaskScope::spawn(Task<void> task) {
  if (state_->stopping) return;
  auto state = state_;
  auto signal = state->signals.emplace(state->signals.end());
  asio::co_spawn(state->executor, std::move(task),
                 asio::bind_cancellation_slot(signal->slot(), [state, signal](std::exception_ptr error) {
                   state->signals.erase(signal);
                   state->changed.notify_all();
                   if (error) check_cancellation(error);
                 }));
}

void TaskScope::cancel_all() {
  // Emitting may end tasks and so change the list.
  auto state = state_;
  std::vector<asio::cancellation_signal*> all;
  for (auto& signal : state->signals) all.push_back(&signal);
  for (auto* signal : all) {
    for (auto& alive : state->signals) {
      if (&alive == signal) {
        signal->emit(asio::cancellation_type::terminal);
        break;
      }
    }
  }
}

Task<void> TaskScope::stop() {
  state_->stopping = true;
  cancel_all();
  co_await drain();
}

Task<void> TaskScope::drain() {
  auto state = state_;
  while (!state->signals.empty()) co_await state->changed.wait();
}

}  // namespace space::async
