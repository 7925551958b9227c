// SPDX-License-Identifier: Apache-2.0
#include "node/capture/dirty_ledger.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/capture/internal/test_guest.h"

namespace space::node::capture {
namespace {

using internal::ImageKind;
using internal::TestGuest;
using internal::TestImage;

constexpr std::uint64_t kPages = 64;

// The real tracker, except that a test may make one collection fail after it has re-armed.
class FailingTracker final : public DirtyTracker {
 public:
  FailingTracker(std::unique_ptr<DirtyTracker> real, const bool& fail)
      : real_(std::move(real)), fail_(fail) {}
  [[nodiscard]] TrackerKind kind() const override { return real_->kind(); }
  [[nodiscard]] TrackerTraits traits() const override { return real_->traits(); }
  Result<PageRuns> collect_and_rearm() override {
    auto pages = real_->collect_and_rearm();
    if (fail_) return make_error(Code::kInternal, "test.failed", "after re-arming");
    return pages;
  }
  Result<PageRuns> peek() override { return real_->peek(); }

 private:
  std::unique_ptr<DirtyTracker> real_;
  const bool& fail_;
};

class Ledger : public ::testing::Test {
 protected:
  TestImage image{ImageKind::kDisk, kPages};
  TestGuest guest{image.fd(), kPages};
  Target target = Target::open(guest.pid(), guest.range()).value();
  bool fail = false;
  DirtyLedger ledger{target, std::make_unique<FailingTracker>(
                                 open_tracker(TrackerKind::kWriteProtect, target).value(), fail)};

  Collected collect() {
    auto collected = ledger.collect();
    EXPECT_TRUE(collected.ok());
    return collected.ok() ? *collected : Collected{};
  }
};

TEST_F(Ledger, KnowsNothingAtFirstAndReportsEverythingThatCanDiffer) {
  guest.fill(3, 1, 1);
  ASSERT_TRUE(ledger.unknown());
  auto first = collect();
  EXPECT_TRUE(first.everything);
  EXPECT_EQ((PageRuns{{3, 1}}), first.pages);
}

TEST_F(Ledger, EstablishedReportsOnlyWhatIsWrittenLater) {
  guest.fill(3, 1, 1);
  ASSERT_TRUE(ledger.establish().ok());
  guest.fill(5, 1, 1);
  auto first = collect();
  EXPECT_FALSE(first.everything);
  EXPECT_EQ((PageRuns{{5, 1}}), first.pages);
}

TEST_F(Ledger, CommittedPagesAreNotReportedAgain) {
  ASSERT_TRUE(ledger.establish().ok());
  guest.fill(5, 1, 1);
  collect();
  ASSERT_TRUE(ledger.commit());
  guest.fill(6, 1, 1);
  EXPECT_EQ((PageRuns{{6, 1}}), collect().pages);
}

TEST_F(Ledger, AbortedPagesAreReportedByTheNextInterval) {
  ASSERT_TRUE(ledger.establish().ok());
  guest.fill(5, 1, 1);
  collect();
  guest.fill(9, 1, 1);
  collect();
  ledger.abort();
  guest.fill(6, 1, 1);
  EXPECT_EQ((PageRuns{{5, 2}, {9, 1}}), collect().pages);
  ledger.abort();
  EXPECT_EQ((PageRuns{{5, 2}, {9, 1}}), collect().pages);
}

TEST_F(Ledger, LaterRoundsReportOnlyWhatIsNew) {
  ASSERT_TRUE(ledger.establish().ok());
  guest.fill(5, 1, 1);
  collect();
  guest.fill(6, 1, 1);
  EXPECT_EQ((PageRuns{{6, 1}}), collect().pages);
  EXPECT_EQ((PageRuns{{5, 2}}), ledger.interval());
}

TEST_F(Ledger, AFailedCollectionMakesEverythingUnknown) {
  ASSERT_TRUE(ledger.establish().ok());
  guest.fill(5, 1, 1);
  fail = true;
  ASSERT_FALSE(ledger.collect().ok());
  ASSERT_FALSE(ledger.commit());
  fail = false;
  auto next = collect();
  EXPECT_TRUE(next.everything);
  EXPECT_EQ((PageRuns{{5, 1}}), next.pages);
}

TEST_F(Ledger, AnAbortedFirstIntervalLeavesEverythingUnknown) {
  guest.fill(5, 1, 1);
  collect();
  ledger.abort();
  auto next = collect();
  EXPECT_TRUE(next.everything);
  EXPECT_EQ((PageRuns{{5, 1}}), next.pages);
}

TEST_F(Ledger, AfterATrackerWasCaughtLyingReportsEveryPage) {
  ASSERT_TRUE(ledger.establish().ok());
  ledger.replace_tracker(open_tracker(TrackerKind::kPrivatePages, target).value());
  auto next = collect();
  EXPECT_TRUE(next.everything);
  EXPECT_EQ((PageRuns{{0, kPages}}), next.pages);
}

TEST_F(Ledger, TellsWhatRemainsWithoutTakingIt) {
  ASSERT_TRUE(ledger.establish().ok());
  guest.fill(5, 3, 1);
  EXPECT_EQ(3u, *ledger.remaining());
  EXPECT_EQ(3u, *ledger.remaining());
  collect();
  EXPECT_EQ(0u, *ledger.remaining());
}

// The record was read out and the reader died before the pages were durable.
TEST_F(Ledger, AReaderKilledBetweenReadoutAndCommitLosesNoPage) {
  ASSERT_TRUE(ledger.establish().ok());
  guest.fill(5, 1, 1);
  int ends[2];
  ASSERT_EQ(0, ::pipe(ends));
  pid_t snapshotter = ::fork();
  if (snapshotter == 0) {
    bool took = ledger.collect().ok();
    if (::write(ends[1], took ? "y" : "n", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char took = 0;
  ASSERT_EQ(1, ::read(ends[0], &took, 1));
  ASSERT_EQ('y', took);
  ::kill(snapshotter, SIGKILL);
  ::waitpid(snapshotter, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
  // The kernel no longer knows of page 5 …
  ASSERT_EQ(0u, *ledger.remaining());
  // … and a node that starts again reports it all the same.
  DirtyLedger restarted(target, open_tracker(TrackerKind::kWriteProtect, target).value());
  auto next = restarted.collect();
  ASSERT_TRUE(next.ok());
  EXPECT_TRUE(contains(next->pages, 5));
}

}  // namespace
}  // namespace space::node::capture
