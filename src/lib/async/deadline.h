// SPDX-License-Identifier: Apache-2.0
#pragma once
// A time limit around a task that yields a Result: the loser of the race is cancelled and awaited.

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <string>
#include <utility>

#include "lib/async/task.h"
#include "lib/base/result.h"

namespace space::async {

// Errors: those of the task; deadline_exceeded `reason` with the sentence `message`.
template <class T>
Task<Result<T>> with_deadline(Task<Result<T>> task, std::chrono::milliseconds limit, std::string reason,
                              std::string message) {
  using boost::asio::experimental::awaitable_operators::operator||;
  auto outcome = co_await (std::move(task) || sleep_for(limit));
  if (outcome.index() == 0) co_return std::get<0>(std::move(outcome));
  co_return make_error(Code::kDeadlineExceeded, std::move(reason), std::move(message));
}

}  // namespace space::async
