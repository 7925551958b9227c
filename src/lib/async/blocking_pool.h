// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads for work that blocks: databases, file trees, checksums. The caller's coroutine continues on its own loop.
// A blocking call can't be cancelled: a cancelled caller still waits for it. Resource type; must outlive its callers.

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
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

  // Runs `work` on a thread of the pool and yields what it returns; `work` and what it refers to must stay valid.
  template <class Work>
  Task<std::invoke_result_t<Work>> run(Work work) {
    co_return co_await boost::asio::co_spawn(pool_.get_executor(), call(std::move(work)), boost::asio::use_awaitable);
  }

 private:
  template <class Work>
  static Task<std::invoke_result_t<Work>> call(Work work) {
    co_return work();
  }
  boost::asio::thread_pool pool_;
};

}  // namespace space::async
