// SPDX-License-Identifier: Apache-2.0
#include "node/capture/dirty_tracker.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include "lib/os/file.h"
#include "node/capture/internal/test_guest.h"
#include "node/capture/pagemap.h"
#include "node/capture/present_pages.h"

namespace space::node::capture {
namespace {

using internal::Arming;
using internal::ImageKind;
using internal::TestGuest;
using internal::TestImage;

constexpr std::uint64_t kPages = 2048;  // 8 MiB

class WriteProtect : public ::testing::TestWithParam<ImageKind> {
 protected:
  TestImage image{GetParam(), kPages};
  TestGuest guest{image.fd(), kPages};
  Target target = Target::open(guest.pid(), guest.range()).value();
  std::unique_ptr<DirtyTracker> tracker = open_tracker(TrackerKind::kWriteProtect, target).value();

  PageRuns collect() {
    auto pages = tracker->collect_and_rearm();
    EXPECT_TRUE(pages.ok());
    return pages.ok() ? *pages : PageRuns{};
  }
};
std::string name_of(const ::testing::TestParamInfo<ImageKind>& info) {
  constexpr const char* kNames[] = {"Memory", "Disk", "Fuse"};
  return kNames[static_cast<int>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Files, WriteProtect,
                         ::testing::Values(ImageKind::kMemory, ImageKind::kDisk, ImageKind::kFuse), name_of);

TEST_P(WriteProtect, ReportsNothingBeforeAnythingIsWritten) {
  EXPECT_EQ(PageRuns{}, collect());
}

TEST_P(WriteProtect, ReportsWritesOfTheProcessorExactly) {
  guest.fill(0, 1, 1);
  guest.fill(100, 3, 2);
  guest.fill(kPages - 1, 1, 3);
  EXPECT_EQ((PageRuns{{0, 1}, {100, 3}, {kPages - 1, 1}}), collect());
}

TEST_P(WriteProtect, DoesNotReportPagesThatWereOnlyRead) {
  guest.load(0, kPages);
  guest.fill(7, 1, 1);
  EXPECT_EQ((PageRuns{{7, 1}}), collect());
}

TEST_P(WriteProtect, ReportsAPageAgainOnlyWhenItIsWrittenAgain) {
  guest.fill(7, 2, 1);
  ASSERT_EQ((PageRuns{{7, 2}}), collect());
  ASSERT_EQ(PageRuns{}, collect());
  guest.fill(8, 1, 2);
  EXPECT_EQ((PageRuns{{8, 1}}), collect());
}

TEST_P(WriteProtect, PeekingTakesNothingAway) {
  guest.fill(7, 2, 1);
  ASSERT_EQ((PageRuns{{7, 2}}), *tracker->peek());
  ASSERT_EQ((PageRuns{{7, 2}}), *tracker->peek());
  EXPECT_EQ((PageRuns{{7, 2}}), collect());
}

TEST_P(WriteProtect, ReportsWritesOfSystemCalls) {
  guest.receive(33, 5);
  EXPECT_EQ((PageRuns{{33, 1}}), collect());
  guest.receive(33, 6);
  EXPECT_EQ((PageRuns{{33, 1}}), collect());
}

TEST_P(WriteProtect, ReportsEveryPageOfAWholeFill) {
  guest.fill(0, kPages, 9);
  EXPECT_EQ((PageRuns{{0, kPages}}), collect());
  guest.fill(0, kPages, 10);
  EXPECT_EQ((PageRuns{{0, kPages}}), collect());
}

TEST_P(WriteProtect, ReportsMoreRegionsThanItsBufferHolds) {
  PageRuns expected;
  for (std::uint64_t page = 1; page < kPages; page += 3) {
    guest.fill(page, 1, 1);
    expected.push_back({page, 1});
  }
  ScanBuffer tiny(5);
  EXPECT_EQ(expected, *scan_written(target, tiny, Rearm::kYes));
  EXPECT_EQ(PageRuns{}, collect());
}

// More than the 512 that the kernel holds back at a time, with and without room for all.
TEST_P(WriteProtect, NamesEachPageOnceWhateverTheBufferHolds) {
  PageRuns expected;
  for (std::uint64_t page = 0; page < kPages; page += 2) {
    guest.fill(page, 1, 1);
    expected.push_back({page, 1});
  }
  for (std::size_t room : {1, 3, 511, 512, 513, 600, 1023, 1024, 1025}) {
    ScanBuffer buffer(room);
    EXPECT_EQ(expected, *scan_written(target, buffer, Rearm::kNo)) << room;
  }
  ScanBuffer buffer(600);
  EXPECT_EQ(expected, *scan_written(target, buffer, Rearm::kYes));
  EXPECT_EQ(PageRuns{}, collect());
}

TEST_P(WriteProtect, ChildrenOfTheGuestNeitherHideNorInventWrites) {
  guest.fill(20, 2, 1);
  ASSERT_EQ((PageRuns{{20, 2}}), collect());
  guest.fill_in_a_fork(20, 10, 2);
  EXPECT_EQ(PageRuns{}, collect());
  guest.fill(21, 1, 3);
  guest.fill(25, 1, 3);
  EXPECT_EQ((PageRuns{{21, 1}, {25, 1}}), collect());
}

TEST_P(WriteProtect, TouchedPagesAreThoseReadOrWritten) {
  guest.load(10, 2);
  guest.fill(50, 1, 1);
  guest.load(600, 600);
  auto touched = touched_pages(target);
  ASSERT_TRUE(touched.ok());
  EXPECT_EQ((std::vector<PageRun>{{10, 2}, {50, 1}, {600, 512}, {1112, 88}}), *touched);
}

TEST_P(WriteProtect, UntouchedPagesAreNotTakenForPrivateOnes) {
  guest.load(10, 2);
  guest.fill(50, 1, 1);
  auto tracker_of_private = open_tracker(TrackerKind::kPrivatePages, target);
  ASSERT_TRUE(tracker_of_private.ok());
  EXPECT_EQ((PageRuns{{50, 1}}), *(*tracker_of_private)->peek());
}

// A fork made after the file was opened has its descriptor.
class IntoGuest : public ::testing::Test {
 protected:
  static os::Fd open_direct() {
    char name[] = "/tmp/space-direct-XXXXXX";
    os::Fd fd(::mkstemp(name));
    std::string content(64 * kPageBytes, 'd');
    EXPECT_TRUE(os::write_all(fd.get(), as_bytes(content)).ok());
    os::Fd direct(::open(name, O_RDONLY | O_DIRECT | O_CLOEXEC));
    ::unlink(name);
    EXPECT_TRUE(static_cast<bool>(direct));
    return direct;
  }
  TestImage image{ImageKind::kMemory, kPages};
  os::Fd file = open_direct();
  TestGuest guest{image.fd(), kPages};
  Target target = Target::open(guest.pid(), guest.range()).value();
  std::unique_ptr<DirtyTracker> tracker = open_tracker(TrackerKind::kWriteProtect, target).value();
};

TEST_F(IntoGuest, DirectReadsAreReported) {
  guest.read_direct(file.get(), 64, 16);
  EXPECT_EQ((PageRuns{{64, 16}}), *tracker->collect_and_rearm());
  guest.read_direct(file.get(), 70, 1);
  EXPECT_EQ((PageRuns{{70, 1}}), *tracker->collect_and_rearm());
}

TEST_F(IntoGuest, ReadsByIoUringAreReportedWhenTheyEndBetweenCollections) {
  guest.read_by_ring(file.get(), 64, 16);
  EXPECT_EQ((PageRuns{{64, 16}}), *tracker->collect_and_rearm());
}

TEST(WriteProtectTracker, IsRefusedForMemoryThatIsNotArmed) {
  TestImage image(ImageKind::kMemory, 16);
  TestGuest guest(image.fd(), 16, Arming::kNone);
  auto target = Target::open(guest.pid(), guest.range());
  ASSERT_TRUE(target.ok());
  EXPECT_FALSE(open_tracker(TrackerKind::kWriteProtect, *target).ok());
}

TEST(PrivatePagesTracker, ReportsEverythingWrittenSinceTheImageWasMapped) {
  TestImage image(ImageKind::kDisk, 64);
  TestGuest guest(image.fd(), 64, Arming::kNone);
  auto target = Target::open(guest.pid(), guest.range());
  ASSERT_TRUE(target.ok());
  auto tracker = open_tracker(TrackerKind::kPrivatePages, *target);
  ASSERT_TRUE(tracker.ok());
  guest.load(0, 64);
  guest.fill(3, 1, 1);
  EXPECT_EQ((PageRuns{{3, 1}}), *(*tracker)->collect_and_rearm());
  guest.receive(5, 1);
  EXPECT_EQ((PageRuns{{3, 1}, {5, 1}}), *(*tracker)->collect_and_rearm());
}

TEST(Target, OfAProcessThatEndedSaysSo) {
  TestImage image(ImageKind::kMemory, 16);
  auto guest = std::make_unique<TestGuest>(image.fd(), 16);
  auto target = Target::open(guest->pid(), guest->range());
  ASSERT_TRUE(target.ok());
  auto tracker = open_tracker(TrackerKind::kWriteProtect, *target);
  ASSERT_TRUE(tracker.ok());
  guest.reset();
  EXPECT_FALSE(target->alive());
  auto pages = (*tracker)->collect_and_rearm();
  ASSERT_FALSE(pages.ok());
  EXPECT_EQ("capture.target_gone", pages.error().reason);
}

TEST(Target, ARangeThatIsNotMappedIsRefused) {
  TestImage image(ImageKind::kMemory, 16);
  TestGuest guest(image.fd(), 16);
  EXPECT_EQ("capture.bad_range",
            Target::open(guest.pid(), {guest.range().address + 4096 * 0x10000, 4096 * 16}).error().reason);
  EXPECT_EQ("capture.bad_range", Target::open(guest.pid(), {guest.range().address + 1, 4096}).error().reason);
  EXPECT_EQ("capture.bad_range", Target::open(guest.pid(), {guest.range().address, 0}).error().reason);
  EXPECT_EQ("capture.bad_range", Target::open(guest.pid(), {std::uint64_t{1} << 63, 4096}).error().reason);
}

}  // namespace
}  // namespace space::node::capture
