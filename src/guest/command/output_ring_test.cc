// SPDX-License-Identifier: Apache-2.0
#include "guest/command/output_ring.h"

#include <gtest/gtest.h>

namespace space::guest {
namespace {

std::string all(const OutputRing& ring, std::uint64_t from) {
  std::string text;
  while (from < ring.end()) {
    ByteView part = ring.from(from);
    text += as_text(part);
    from += part.size();
  }
  return text;
}

std::string numbers(std::size_t from, std::size_t to) {
  std::string text;
  for (std::size_t i = from; i < to; ++i) text += static_cast<char>('a' + i % 23);
  return text;
}

TEST(OutputRing, HoldsTheLastBytesUnderTheirOffsets) {
  OutputBudget budget(1 << 20, nullptr);
  OutputRing ring(budget);
  for (std::size_t at = 0; at < 600'000; at += 777) ring.append(as_bytes(numbers(at, at + 777)));
  std::uint64_t end = ring.end();
  EXPECT_EQ(end, 600'000 / 777 * 777 + 777);
  EXPECT_EQ(ring.begin(), end - OutputRing::kCapacity);
  EXPECT_EQ(all(ring, ring.begin()), numbers(ring.begin(), end));
  EXPECT_EQ(all(ring, end - 5), numbers(end - 5, end));
  EXPECT_EQ(all(ring, end), "");
}

TEST(OutputRing, AnAppendLargerThanItselfKeepsItsTail) {
  OutputBudget budget(1 << 20, nullptr);
  OutputRing ring(budget);
  ring.append(as_bytes("abc"));
  ring.append(as_bytes(numbers(0, 300'000)));
  EXPECT_EQ(ring.end(), 300'003U);
  EXPECT_EQ(all(ring, ring.begin()), numbers(300'000 - OutputRing::kCapacity, 300'000));
}

TEST(OutputRing, RoomNeverCostsABytesThatIsKept) {
  OutputBudget budget(1 << 20, nullptr);
  OutputRing ring(budget);
  std::uint64_t kept = 0;
  while (std::size_t room = ring.room(kept, 50'000))
    ring.append(as_bytes(numbers(ring.end(), ring.end() + room)));
  EXPECT_EQ(ring.end(), OutputRing::kCapacity);
  EXPECT_EQ(all(ring, 0), numbers(0, OutputRing::kCapacity));
  EXPECT_EQ(ring.room(100, 50'000), 100U);
}

TEST(OutputRing, UsesMemoryOnlyForWhatItHolds) {
  OutputBudget budget(1 << 20, nullptr);
  {
    OutputRing ring(budget);
    EXPECT_EQ(budget.used(), 0U);
    ring.append(as_bytes("x"));
    EXPECT_EQ(budget.used(), OutputRing::kMinimum);
    ring.append(as_bytes(numbers(0, 10'000)));
    EXPECT_EQ(budget.used(), 16u << 10);
    ring.clear();
    EXPECT_EQ(budget.used(), 0U);
    EXPECT_EQ(ring.begin(), ring.end());
    ring.append(as_bytes("yz"));
    EXPECT_EQ(all(ring, ring.begin()), "yz");
    EXPECT_EQ(ring.end(), 10'003U);
  }
  EXPECT_EQ(budget.used(), 0U);
}

TEST(OutputRing, WithoutBudgetItStaysSmallButWorks) {
  int asked = 0;
  OutputBudget budget(OutputRing::kMinimum * 2, [&] {
    ++asked;
    return false;
  });
  OutputRing first(budget), second(budget), third(budget);
  first.append(as_bytes(numbers(0, 100'000)));
  second.append(as_bytes(numbers(0, 100'000)));
  third.append(as_bytes(numbers(0, 100'000)));
  EXPECT_GT(asked, 0);
  EXPECT_EQ(third.end() - third.begin(), OutputRing::kMinimum);
  EXPECT_EQ(all(third, third.begin()), numbers(100'000 - OutputRing::kMinimum, 100'000));
}

TEST(OutputRing, ReclaimedMemoryLetsAnotherGrow) {
  OutputRing* victim = nullptr;
  OutputBudget budget(OutputRing::kCapacity, [&] {
    if (victim == nullptr) return false;
    std::exchange(victim, nullptr)->clear();
    return true;
  });
  OutputRing old(budget), fresh(budget);
  old.append(as_bytes(numbers(0, 200'000)));
  victim = &old;
  fresh.append(as_bytes(numbers(0, 200'000)));
  EXPECT_EQ(old.begin(), old.end());
  EXPECT_EQ(all(fresh, 0), numbers(0, 200'000));
}

}  // namespace
}  // namespace space::guest
