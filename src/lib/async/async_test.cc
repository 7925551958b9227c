// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <future>
#include <stdexcept>
#include <thread>

#include "lib/async/blocking_pool.h"
#include "lib/async/deadline.h"
#include "lib/async/event.h"
#include "lib/async/task_scope.h"

namespace space::async {
namespace {

using namespace std::chrono_literals;

// Runs the loop until `task` and everything it started are done.
void run(Loop& loop, Task<void> task) {
  boost::asio::co_spawn(loop, std::move(task), [](std::exception_ptr error) {
    if (error) std::rethrow_exception(error);
  });
  loop.run();
}

struct Fixture : ::testing::Test {
  Loop loop;
  TaskScope scope{loop.get_executor()};
  Event event{loop.get_executor()};
  std::string log;

  Task<void> forever() {
    log += "in ";
    for (;;) co_await event.wait();
  }
  Task<void> sleeper() {
    log += "in ";
    co_await sleep_for(1h);
    log += "never ";
  }
  Task<Result<int>> slow() {
    co_await sleep_for(1h);
    co_return 1;
  }
  Task<Result<int>> quick() { co_return 2; }
};
using TaskScopeTest = Fixture;
using DeadlineTest = Fixture;
using EventTest = Fixture;

Task<void> stop_soon(TaskScope& scope, std::string& log) {
  while (log != "in in ") co_await sleep_for(1ms);
  co_await scope.stop();
  log += "stopped";
}

TEST_F(TaskScopeTest, StopCancelsWaitsAndRefuses) {
  scope.spawn(forever());
  scope.spawn(sleeper());
  run(loop, stop_soon(scope, log));
  EXPECT_EQ(log, "in in stopped");
  EXPECT_EQ(scope.running(), 0U);
  scope.spawn(sleeper());
  EXPECT_EQ(scope.running(), 0U);
}

Task<void> race(Fixture& f) {
  auto late = co_await with_deadline(f.slow(), 1ms, "test.late", "too slow");
  EXPECT_EQ(late.error().reason, "test.late");
  auto fine = co_await with_deadline(f.quick(), 1h, "test.late", "too slow");
  EXPECT_EQ(*fine, 2);
}
TEST_F(DeadlineTest, TheLoserIsCancelled) {
  run(loop, race(*this));
}

Task<void> limited(Fixture& f) {
  f.log += "in ";
  (co_await with_deadline(f.slow(), 1h, "test.late", "too slow")).ignore("is cancelled");
}
Task<void> limited_event(Fixture& f) {
  f.log += "in ";
  co_await f.event.wait_until(std::chrono::steady_clock::now() + 1h);
}
TEST_F(DeadlineTest, ACancelledRaceEndsLikeAnyCancelledTask) {
  scope.spawn(limited(*this));
  scope.spawn(limited_event(*this));
  run(loop, stop_soon(scope, log));
  EXPECT_EQ(log, "in in stopped");
}

Task<void> waiter(Fixture& f, bool& go) {
  while (!go) co_await f.event.wait();
  f.log += "went ";
}
Task<void> notifier(Fixture& f, bool& go) {
  EXPECT_FALSE(co_await f.event.wait_until(std::chrono::steady_clock::now() + 1ms));
  go = true;
  f.event.notify_all();
  co_await f.scope.drain();
}
TEST_F(EventTest, WakesEveryWaiter) {
  bool go = false;
  scope.spawn(waiter(*this, go));
  scope.spawn(waiter(*this, go));
  run(loop, notifier(*this, go));
  EXPECT_EQ(log, "went went ");
}

Task<void> pooled(BlockingPool& pool) {
  auto here = std::this_thread::get_id();
  auto there = co_await pool.run([] { return std::this_thread::get_id(); });
  EXPECT_NE(here, there);
  EXPECT_EQ(here, std::this_thread::get_id());
}
TEST(BlockingPoolTest, WorkRunsElsewhereAndTheCallerComesBack) {
  BlockingPool pool(1);
  Loop loop;
  run(loop, pooled(pool));
}

Task<void> pooled_and_noted(BlockingPool& pool, std::promise<void>& begun, std::future<void> go_on,
                            int& result) {
  result = co_await pool.run([&] {
    begun.set_value();
    go_on.wait();
    return 7;
  });
  co_await sleep_for(std::chrono::hours(1));
  result = 0;  // not reached: the cancellation comes up here
}
Task<void> cancel_while_pooled(TaskScope& scope, std::future<void> begun, std::promise<void>& go_on) {
  co_await sleep_for(std::chrono::milliseconds(0));
  begun.wait();
  scope.cancel_all();
  go_on.set_value();
  co_await scope.drain();
}
TEST(BlockingPoolTest, ACancelledCallerStillGetsWhatWasMade) {
  BlockingPool pool(2);
  Loop loop;
  TaskScope scope(loop.get_executor());
  std::promise<void> begun;
  std::promise<void> go_on;
  int result = 0;
  scope.spawn(pooled_and_noted(pool, begun, go_on.get_future(), result));
  run(loop, cancel_while_pooled(scope, begun.get_future(), go_on));
  EXPECT_EQ(result, 7);
}

TEST(BlockingPoolTest, WhatWorkThrowsComesToTheCaller) {
  BlockingPool pool(1);
  Loop loop;
  bool caught = false;
  run(loop, [](BlockingPool& where, bool& noted) -> Task<void> {
    try {
      co_await where.run([] { throw std::runtime_error("from the pool"); });
    } catch (const std::runtime_error&) {
      noted = true;
    }
  }(pool, caught));
  EXPECT_TRUE(caught);
}

}  // namespace
}  // namespace space::async
