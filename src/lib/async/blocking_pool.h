// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads for work that blocks: databases, file trees, checksums. The caller's coroutine continues on its own
// loop. A blocking call can't be cancelled: a cancelled caller still waits for it. Resource type; must
// outlive its callers.

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "lib/async/task.h"

namespace space::async {

class BlockingPool {
 public:
  explicit BlockingPool(std::size_t threads) : pool_(threads) {}
  ~BlockingPool() { pool_.join(); }
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;

  // Runs `work` on a thread of the pool and yields what it returns; `work` and what it refers to must stay
  // valid. What it throws is thrown here. A caller that is cancelled meanwhile gets the result all the same
  // and ends at its next co_await, so nothing that was made is lost.
  template <class Work>
  Task<std::invoke_result_t<Work>> run(Work work) {
    using Value = std::invoke_result_t<Work>;
    // Not co_spawn: a coroutine on several threads must not be sent a cancellation.
    Outcome<Value> outcome =
        co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void(Outcome<Value>)>(
            [this](auto handler, Work todo) {
              auto home = boost::asio::make_work_guard(boost::asio::get_associated_executor(handler));
              boost::asio::post(pool_, [handler = std::move(handler), todo = std::move(todo),
                                        home = std::move(home)]() mutable {
                auto executor = home.get_executor();
                boost::asio::post(executor,
                                  [handler = std::move(handler), home = std::move(home),
                                   done = call(todo)]() mutable { std::move(handler)(std::move(done)); });
              });
            },
            boost::asio::use_awaitable, std::move(work));
    if (outcome.error) std::rethrow_exception(outcome.error);
    if constexpr (!std::is_void_v<Value>) co_return std::move(*outcome.value);
  }

 private:
  struct Nothing {};
  template <class Value>
  struct Outcome {
    std::exception_ptr error;
    std::optional<std::conditional_t<std::is_void_v<Value>, Nothing, Value>> value;
  };

  template <class Work>
  static Outcome<std::invoke_result_t<Work>> call(Work& work) {
    Outcome<std::invoke_result_t<Work>> outcome;
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<Work>>) {
        work();
      } else {
        outcome.value.emplace(work());
      }
    } catch (...) {  // carried to the caller's thread
      outcome.error = std::current_exception();
    }
    return outcome;
  }

  boost::asio::thread_pool pool_;
};

}  // namespace space::async
