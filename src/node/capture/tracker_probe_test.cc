// SPDX-License-Identifier: Apache-2.0
#include "node/capture/tracker_probe.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include "node/capture/internal/test_guest.h"

namespace space::node::capture {
namespace {

using internal::Arming;
using internal::ImageKind;
using internal::TestGuest;
using internal::TestImage;
using ::testing::HasSubstr;

// Does this kernel really set the bit? Asked without any of our code.
bool soft_dirty_is_real() {
  static volatile char page[2 * kPageBytes];
  page[kPageBytes] = 1;
  os::Fd clear(::open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC));
  if (!clear || ::write(clear.get(), "4", 1) != 1) return false;
  page[kPageBytes] = 2;
  os::Fd map(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  std::uint64_t entry = 0;
  auto number = reinterpret_cast<std::uintptr_t>(page + kPageBytes) / kPageBytes;
  return ::pread(map.get(), &entry, 8, static_cast<off_t>(number * 8)) == 8 && (entry >> 55 & 1) != 0;
}

TEST(TrackerProbe, NamesEveryKindInRankedOrderWithAReason) {
  auto reports = probe_trackers();
  ASSERT_EQ(3u, reports.size());
  EXPECT_EQ(TrackerKind::kWriteProtect, reports[0].kind);
  EXPECT_EQ(TrackerKind::kSoftDirty, reports[1].kind);
  EXPECT_EQ(TrackerKind::kPrivatePages, reports[2].kind);
  EXPECT_FALSE(reports[0].reason.empty() || reports[1].reason.empty() || reports[2].reason.empty());
}

TEST(TrackerProbe, FindsWriteProtectionAndPrivatePagesWorking) {
  auto reports = probe_trackers();
  EXPECT_EQ(TrackerStatus::kWorks, reports[0].status) << reports[0].reason;
  EXPECT_EQ(TrackerStatus::kWorks, reports[2].status) << reports[2].reason;
}

TEST(TrackerProbe, TrustsSoftDirtyExactlyWhereAWriteSetsTheBit) {
  EXPECT_EQ(soft_dirty_is_real(), probe_trackers()[1].status == TrackerStatus::kWorks);
}

TEST(TrackerProbe, WorksOnAFuseFile) {
  TestImage image(ImageKind::kFuse, kProbePages);
  EXPECT_EQ(TrackerStatus::kWorks, probe_trackers(image.fd())[0].status);
}

TEST(TrackerProbe, OfAFileThatCannotBeMappedSaysSo) {
  os::Fd directory(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  auto reports = probe_trackers(directory.get());
  EXPECT_EQ(TrackerStatus::kUnavailable, reports[0].status);
  EXPECT_THAT(reports[0].reason, HasSubstr("can't map"));
}

TEST(TrackerRoster, OpensTheBestForAnArmedGuest) {
  TestImage image(ImageKind::kMemory, 16);
  TestGuest guest(image.fd(), 16);
  auto target = Target::open(guest.pid(), guest.range());
  ASSERT_TRUE(target.ok());
  TrackerRoster roster(probe_trackers());
  auto tracker = roster.open_best(*target);
  ASSERT_TRUE(tracker.ok());
  EXPECT_EQ(TrackerKind::kWriteProtect, (*tracker)->kind());
}

TEST(TrackerRoster, FallsToALowerRankForAGuestThatIsNotArmed) {
  TestImage image(ImageKind::kMemory, 16);
  TestGuest guest(image.fd(), 16, Arming::kNone);
  auto target = Target::open(guest.pid(), guest.range());
  ASSERT_TRUE(target.ok());
  TrackerRoster roster(probe_trackers());
  auto tracker = roster.open_best(*target);
  ASSERT_TRUE(tracker.ok());
  EXPECT_NE(TrackerKind::kWriteProtect, (*tracker)->kind());
}

TEST(TrackerRoster, NeverOpensWhatWasCaughtMissingAWrite) {
  TestImage image(ImageKind::kMemory, 16);
  TestGuest guest(image.fd(), 16);
  auto target = Target::open(guest.pid(), guest.range());
  ASSERT_TRUE(target.ok());
  TrackerRoster roster(probe_trackers());
  EXPECT_TRUE(roster.distrust(TrackerKind::kWriteProtect, "missed page 7"));
  EXPECT_FALSE(roster.distrust(TrackerKind::kWriteProtect, "missed page 8"));
  auto tracker = roster.open_best(*target);
  ASSERT_TRUE(tracker.ok());
  EXPECT_NE(TrackerKind::kWriteProtect, (*tracker)->kind());
  EXPECT_EQ("missed page 7", roster.reports()[0].reason);
}

TEST(TrackerRoster, WithNothingThatWorksGivesEveryReason) {
  TestImage image(ImageKind::kMemory, 16);
  TestGuest guest(image.fd(), 16);
  auto target = Target::open(guest.pid(), guest.range());
  ASSERT_TRUE(target.ok());
  TrackerRoster roster({{TrackerKind::kWriteProtect, TrackerStatus::kUnavailable, "no kernel support"},
                        {TrackerKind::kPrivatePages, TrackerStatus::kLies, "says nothing"}});
  auto tracker = roster.open_best(*target);
  ASSERT_FALSE(tracker.ok());
  EXPECT_EQ("capture.no_tracker", tracker.error().reason);
  EXPECT_THAT(tracker.error().message,
              ::testing::AllOf(HasSubstr("no kernel support"), HasSubstr("says nothing")));
}

}  // namespace
}  // namespace space::node::capture
