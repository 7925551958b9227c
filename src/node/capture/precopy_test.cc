// SPDX-License-Identifier: Apache-2.0
#include "node/capture/precopy.h"

#include <gtest/gtest.h>

namespace space::node::capture {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr double kSpeed = 4.096e9;  // a page per microsecond
PreCopyLimits limits() {
  return {.pause_budget = microseconds(1000),
          .max_rounds = 5,
          .must_shrink_to = 0.75,
          .stalled_rounds = 2,
          .max_time = milliseconds(500)};
}
RoundFacts facts(std::uint64_t remaining, microseconds scan = microseconds(0),
                 microseconds elapsed = microseconds(0)) {
  return {remaining, kSpeed, scan, elapsed};
}

TEST(PreCopy, ASmallRemainderIsCopiedInThePauseAtOnce) {
  PreCopy precopy(limits());
  EXPECT_EQ((PreCopyVerdict{false, CutReason::kFitsBudget, microseconds(1000)}), precopy.next(facts(1000)));
}

TEST(PreCopy, TheScanCountsAgainstThePause) {
  PreCopy precopy(limits());
  EXPECT_TRUE(precopy.next(facts(900, microseconds(101))).copy_again);
}

TEST(PreCopy, ASlowScanIsNoReasonToCopyTheLastPages) {
  PreCopy precopy(limits());
  EXPECT_EQ(CutReason::kScanDominates, precopy.next(facts(1500, microseconds(1500))).reason);
}

TEST(PreCopy, GoesOnWhileTheRemainderShrinks) {
  PreCopy precopy(limits());
  EXPECT_TRUE(precopy.next(facts(16000)).copy_again);
  EXPECT_TRUE(precopy.next(facts(8000)).copy_again);
  EXPECT_TRUE(precopy.next(facts(4000)).copy_again);
  EXPECT_EQ(CutReason::kFitsBudget, precopy.next(facts(900)).reason);
}

TEST(PreCopy, EndsWhenTheGuestWritesAsFastAsWeCopy) {
  PreCopy precopy(limits());
  EXPECT_TRUE(precopy.next(facts(16000)).copy_again);
  EXPECT_TRUE(precopy.next(facts(15000)).copy_again);
  EXPECT_EQ(CutReason::kStoppedShrinking, precopy.next(facts(14900)).reason);
}

TEST(PreCopy, OneBadRoundIsForgivenWhenTheNextShrinks) {
  PreCopy precopy(limits());
  EXPECT_TRUE(precopy.next(facts(16000)).copy_again);
  EXPECT_TRUE(precopy.next(facts(16000)).copy_again);
  EXPECT_TRUE(precopy.next(facts(8000)).copy_again);
  EXPECT_TRUE(precopy.next(facts(7900)).copy_again);
}

TEST(PreCopy, NeverExceedsTheLimitOfRounds) {
  PreCopy precopy(limits());
  std::uint64_t remaining = std::uint64_t{1} << 30;
  unsigned rounds = 0;
  PreCopyVerdict last;
  while ((last = precopy.next(facts(remaining))).copy_again) {
    remaining /= 2;
    ++rounds;
  }
  EXPECT_EQ(5u, rounds);
  EXPECT_EQ(CutReason::kRoundLimit, last.reason);
}

TEST(PreCopy, EndsWhenTheTimeIsUp) {
  PreCopy precopy(limits());
  EXPECT_TRUE(precopy.next(facts(100000, {}, milliseconds(900))).copy_again);  // nothing is lost by one round
  EXPECT_EQ(CutReason::kTimeLimit, precopy.next(facts(10000, {}, milliseconds(501))).reason);
}

TEST(PreCopy, WithoutAMeasuredSpeedAssumesASlowMachine) {
  PreCopy precopy(limits());
  // 300 pages at 1 GB/s take 1.2 ms.
  EXPECT_TRUE(precopy.next({300, 0, microseconds(0), microseconds(0)}).copy_again);
}

}  // namespace
}  // namespace space::node::capture
