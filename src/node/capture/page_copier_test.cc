// SPDX-License-Identifier: Apache-2.0
#include "node/capture/page_copier.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "node/capture/capture_arena.h"
#include "node/capture/internal/test_guest.h"

namespace space::node::capture {
namespace {

using internal::ImageKind;
using internal::TestGuest;
using internal::TestImage;

constexpr std::uint64_t kPages = 4096;

class Copier : public ::testing::TestWithParam<unsigned> {
 protected:
  SimulatedClock clock;
  TestImage image{ImageKind::kMemory, kPages};
  TestGuest guest{image.fd(), kPages};
  Target target = Target::open(guest.pid(), guest.range()).value();
  CaptureArena arena = CaptureArena::create(kPages * kPageBytes).value();
  void SetUp() override { ASSERT_TRUE(arena.reserve(kPages * kPageBytes).ok()); }
  // Pages of the image that are not where they belong.
  std::size_t misplaced(const std::vector<PagePlacement>& placements) {
    return static_cast<std::size_t>(
        std::count_if(placements.begin(), placements.end(), [&](const PagePlacement& p) {
          std::uint64_t word = 0;
          std::memcpy(&word, arena.data() + p.slot * kPageBytes + 4088, 8);
          return word != TestImage::word_of(p.page);
        }));
  }
};
INSTANTIATE_TEST_SUITE_P(Threads, Copier, ::testing::Values(1u, 2u));

TEST_P(Copier, CopiesScatteredPagesToScatteredSlots) {
  std::vector<PagePlacement> placements;
  for (std::uint64_t page = 0; page < kPages; ++page) placements.push_back({page, page});
  std::mt19937 random(7);
  std::shuffle(placements.begin(), placements.end(), random);
  for (std::uint64_t slot = 0; slot < kPages; ++slot) placements[slot].slot = slot;
  std::sort(placements.begin(), placements.end(),
            [](const auto& a, const auto& b) { return a.page < b.page; });
  PageCopier copier(target, clock, GetParam());
  auto stats = copier.copy(placements, arena.data());
  ASSERT_TRUE(stats.ok());
  EXPECT_EQ(kPages, stats->pages);
  EXPECT_EQ(0u, misplaced(placements));
}

TEST_P(Copier, CopiesOneLongRun) {
  std::vector<PagePlacement> placements;
  for (std::uint64_t page = 0; page < kPages; ++page) placements.push_back({page, page});
  PageCopier copier(target, clock, GetParam());
  ASSERT_TRUE(copier.copy(placements, arena.data()).ok());
  EXPECT_EQ(0u, misplaced(placements));
}

TEST_P(Copier, OfNothingSucceeds) {
  PageCopier copier(target, clock, GetParam());
  EXPECT_TRUE(copier.copy({}, arena.data()).ok());
}

TEST_P(Copier, APageThatTheImageCannotDeliverIsNamed) {
  TestImage whole(ImageKind::kDisk, kPages);
  TestGuest other(whole.fd(), kPages);
  auto gone = Target::open(other.pid(), other.range());
  ASSERT_TRUE(gone.ok());
  ASSERT_EQ(0, ::ftruncate(whole.fd(), 3000 * kPageBytes));
  std::vector<PagePlacement> placements;
  for (std::uint64_t page = 0; page < kPages; ++page) placements.push_back({page, page});
  PageCopier copier(*gone, clock, GetParam());
  auto stats = copier.copy(placements, arena.data());
  ASSERT_FALSE(stats.ok());
  EXPECT_EQ("capture.unreadable_page", stats.error().reason);
  EXPECT_NE(std::string::npos, stats.error().message.find("page 3000 "));
}

}  // namespace
}  // namespace space::node::capture
