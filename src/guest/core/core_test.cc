// SPDX-License-Identifier: Apache-2.0
// The loop and its threads.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>

#include "guest/core/loop.h"
#include "guest/core/small_file.h"
#include "guest/core/worker_pool.h"

namespace space::guest {
namespace {

struct LoopTest : ::testing::Test {
  std::unique_ptr<Loop> loop = std::move(Loop::create()).value();
  os::Fd reading, writing;
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    reading = os::Fd(ends[0]);
    writing = os::Fd(ends[1]);
  }
};

TEST_F(LoopTest, ACallbackMayUnwatchItself) {
  int calls = 0;
  loop->watch(reading.get(), EPOLLIN, [&](std::uint32_t) {
    ++calls;
    loop->unwatch(reading.get());
    loop->defer([&] { loop->defer([&] { loop->stop(); }); });
  });
  ASSERT_EQ(::write(writing.get(), "x", 1), 1);
  loop->run();
  EXPECT_EQ(calls, 1);
}

TEST_F(LoopTest, EventsOfAWatchThatWasReplacedAreDropped) {
  // Both are ready in one round; whichever comes first replaces the other's watch.
  int old_calls = 0, new_calls = 0;
  os::Fd second(::dup(reading.get()));
  auto replace = [&](int own, int other) {
    return [&, own, other](std::uint32_t) {
      ++old_calls;
      loop->unwatch(own);
      loop->watch(other, EPOLLIN, [&](std::uint32_t) {
        ++new_calls;
        loop->stop();
      });
    };
  };
  loop->watch(reading.get(), EPOLLIN, replace(reading.get(), second.get()));
  loop->watch(second.get(), EPOLLIN, replace(second.get(), reading.get()));
  ASSERT_EQ(::write(writing.get(), "x", 1), 1);
  loop->run();
  EXPECT_EQ(old_calls, 1);
  EXPECT_EQ(new_calls, 1);
}

TEST_F(LoopTest, TimersRunInOrderAndCancelledOnesNever) {
  std::string order;
  auto never = loop->after(std::chrono::milliseconds(2), [&] { order += "x"; });
  loop->after(std::chrono::milliseconds(3), [&] {
    order += "b";
    loop->stop();
  });
  loop->after(std::chrono::milliseconds(1), [&] { order += "a"; });
  loop->cancel(never);
  loop->cancel(12345);
  loop->run();
  EXPECT_EQ(order, "ab");
}

TEST_F(LoopTest, WorkIsDoneElsewhereAndReportedHere) {
  WorkerPool pool(*loop, 8);
  pthread_t here = ::pthread_self();
  std::atomic<int> elsewhere{0};
  int reported = 0;
  for (int i = 0; i < 200; ++i) {
    pool.submit([&] { elsewhere += ::pthread_equal(here, ::pthread_self()) == 0 ? 1 : 0; },
                [&] {
                  EXPECT_NE(::pthread_equal(here, ::pthread_self()), 0);
                  if (++reported == 200) loop->stop();
                });
  }
  loop->run();
  EXPECT_EQ(elsewhere.load(), 200);
}

TEST_F(LoopTest, WorkThatBlocksDoesNotHoldUpOtherWork) {
  WorkerPool pool(*loop, 8);
  int done = 0;
  auto finished = [&] {
    if (++done == 5) loop->stop();
  };
  for (int i = 0; i < 4; ++i) {
    pool.submit(
        [&] {
          char byte;
          [[maybe_unused]] ssize_t got = ::read(reading.get(), &byte, 1);
        },
        finished);
  }
  // Runs although four threads are blocked, and lets them go.
  pool.submit([&] { ASSERT_EQ(::write(writing.get(), "abcd", 4), 4); }, finished);
  loop->run();
  EXPECT_EQ(done, 5);
}

TEST(SmallFile, FindsTheNumberOfAKey) {
  constexpr std::string_view kText = "MemTotal:       123 kB\nMemFree: 45 kB\nZero: 0 kB\noom_kill 7\n";
  EXPECT_EQ(number_after(kText, "MemTotal:"), 123U);
  EXPECT_EQ(number_after(kText, "MemFree:"), 45U);
  EXPECT_EQ(number_after(kText, "Zero:"), 0U);
  EXPECT_EQ(number_after(kText, "oom_kill "), 7U);
  EXPECT_EQ(number_after(kText, "None:"), 0U);
  EXPECT_EQ(number_after("4096\n", ""), 4096U);
}

}  // namespace
}  // namespace space::guest
