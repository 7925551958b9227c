// SPDX-License-Identifier: Apache-2.0
#include "node/capture/zero_page.h"

#include <gtest/gtest.h>

#include <array>

namespace space::node::capture {
namespace {

TEST(ZeroPage, IsAPageOfZeros) {
  alignas(64) std::array<std::byte, kPageBytes> page{};
  EXPECT_TRUE(is_zero_page(page.data()));
}

TEST(ZeroPage, AnySingleBitMakesAPageNotZero) {
  alignas(64) std::array<std::byte, kPageBytes> page{};
  int taken_for_zero = 0;
  for (std::size_t at = 0; at < kPageBytes; ++at) {
    page[at] = std::byte{1} << (at % 8);
    taken_for_zero += is_zero_page(page.data()) ? 1 : 0;
    page[at] = std::byte{0};
  }
  EXPECT_EQ(0, taken_for_zero);
}

}  // namespace
}  // namespace space::node::capture
