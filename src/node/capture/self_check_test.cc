// SPDX-License-Identifier: Apache-2.0
#include "node/capture/self_check.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "node/capture/dirty_ledger.h"
#include "node/capture/internal/test_guest.h"
#include "node/capture/tracker_probe.h"

namespace space::node::capture {
namespace {

using internal::ImageKind;
using internal::TestGuest;
using internal::TestImage;

constexpr std::uint64_t kPages = 4096;

// Holds the pages themselves: digests of a store, without its keys. FNV, since nobody attacks a test.
class Stored final : public PageDigests {
 public:
  explicit Stored(std::vector<std::byte> memory) : memory_(std::move(memory)) {}
  PageDigest of_content(ByteView page) const override {
    std::uint64_t hash = 14695981039346656037u;
    for (std::size_t at = 0; at < page.size(); at += 8)
      hash = (hash ^ load_le<std::uint64_t>(page.data() + at)) * 1099511628211u;
    PageDigest digest{};
    store_le(digest.data(), hash);
    return digest;
  }
  Result<void> stored(std::uint64_t first, std::span<PageDigest> out) const override {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = of_content({memory_.data() + (first + i) * kPageBytes, kPageBytes});
    return {};
  }

 private:
  std::vector<std::byte> memory_;
};

// The real tracker with a page cut out of every report.
class SkippingTracker final : public DirtyTracker {
 public:
  SkippingTracker(DirtyTracker& real, std::uint64_t page) : real_(real), page_(page) {}
  [[nodiscard]] TrackerKind kind() const override { return real_.kind(); }
  [[nodiscard]] TrackerTraits traits() const override { return real_.traits(); }
  Result<PageRuns> collect_and_rearm() override { return without(real_.collect_and_rearm()); }
  Result<PageRuns> peek() override { return without(real_.peek()); }

 private:
  Result<PageRuns> without(Result<PageRuns> pages) const {
    const PageRun skipped{page_, 1};
    if (!pages.ok()) return pages;
    return difference_of(*pages, {&skipped, 1});
  }
  DirtyTracker& real_;
  std::uint64_t page_;
};

class SelfChecking : public ::testing::Test {
 protected:
  TestImage image{ImageKind::kMemory, kPages};
  TestGuest guest{image.fd(), kPages};
  Target target = Target::open(guest.pid(), guest.range()).value();
  std::unique_ptr<DirtyTracker> tracker = open_tracker(TrackerKind::kWriteProtect, target).value();
  SimulatedClock clock;
  PageCopier copier{target, clock};
  Stored stored{guest.memory()};
};

TEST_F(SelfChecking, OfAnHonestTrackerFindsChangesAndNothingUnreported) {
  guest.fill(7, 3, 1);
  auto report = SelfCheck(target, *tracker, copier, stored).check_all();
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(kPages, report->checked_pages);
  EXPECT_EQ(3u, report->changed_pages);
  EXPECT_EQ(PageRuns{}, report->unreported);
}

TEST_F(SelfChecking, FindsASkippedPage) {
  guest.fill(2999, 3, 1);
  SkippingTracker liar(*tracker, 3000);
  auto report = SelfCheck(target, liar, copier, stored).check_all();
  ASSERT_TRUE(report.ok());
  EXPECT_EQ((PageRuns{{3000, 1}}), report->unreported);
  auto confirmed = SelfCheck(target, liar, copier, stored).confirm(report->unreported);
  ASSERT_TRUE(confirmed.ok());
  EXPECT_EQ((PageRuns{{3000, 1}}), confirmed->unreported);
}

TEST_F(SelfChecking, PagesHeldByTheLedgerCountAsReported) {
  guest.fill(7, 3, 1);
  ASSERT_TRUE(tracker->collect_and_rearm().ok());
  const PageRuns held = {{7, 3}};
  auto report = SelfCheck(target, *tracker, copier, stored).check_all(held);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(PageRuns{}, report->unreported);
}

TEST_F(SelfChecking, ARunningGuestRaisesNoFalseAlarm) {
  guest.start_writing(3);
  while (guest.writes() < 1000) std::this_thread::yield();
  auto report = SelfCheck(target, *tracker, copier, stored).check_all();
  guest.stop_writing();
  ASSERT_TRUE(report.ok());
  EXPECT_GT(report->changed_pages, 0u);
  EXPECT_EQ(PageRuns{}, report->unreported);
}

// From the miss to the next rank, as a node does it.
TEST_F(SelfChecking, AMissLeadsToTheNextRankAndAFullCompare) {
  TrackerRoster roster(probe_trackers());
  DirtyLedger ledger(target, open_tracker(TrackerKind::kWriteProtect, target).value());
  ASSERT_TRUE(ledger.establish().ok());
  guest.fill(3000, 1, 1);
  SkippingTracker liar(*tracker, 3000);
  auto report = SelfCheck(target, liar, copier, stored).check_all();
  ASSERT_TRUE(report.ok());
  ASSERT_FALSE(report->unreported.empty());
  ASSERT_TRUE(roster.distrust(ledger.tracker(), "missed page 3000"));
  auto next = roster.open_best(target);
  ASSERT_TRUE(next.ok());
  ledger.replace_tracker(std::move(next).value());
  EXPECT_NE(TrackerKind::kWriteProtect, ledger.tracker());
  auto all = ledger.collect();
  ASSERT_TRUE(all.ok());
  EXPECT_TRUE(all->everything);
  EXPECT_TRUE(contains(all->pages, 3000));
}

}  // namespace
}  // namespace space::node::capture
