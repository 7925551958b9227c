// SPDX-License-Identifier: Apache-2.0
#pragma once
// Coroutines of the platform: Asio awaitables on one loop per thread.
//
// Objects belong to a loop and are used from it only. Blocking work goes to a BlockingPool. Cancellation
// reaches a coroutine as an exception at its next co_await (Asio's default); it ends in TaskScope and nowhere
// else.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>

namespace space::async {

template <class T>
using Task = boost::asio::awaitable<T>;

using Loop = boost::asio::io_context;
using Executor = boost::asio::any_io_executor;

Task<void> sleep_for(std::chrono::milliseconds duration);

}  // namespace space::async
