// SPDX-License-Identifier: Apache-2.0
#include "lib/http/range.h"

#include <gtest/gtest.h>

namespace space::http {
namespace {

std::pair<std::uint64_t, std::uint64_t> part(const char* header, std::uint64_t size) {
  auto extent = resolve(*parse_range(header), size);
  return extent ? std::pair(extent->offset, extent->length)
                : std::pair<std::uint64_t, std::uint64_t>(~0ULL, 0);
}

TEST(ByteRange, AllThreeFormsAreUnderstood) {
  EXPECT_EQ(part("bytes=0-0", 10), std::pair(std::uint64_t{0}, std::uint64_t{1}));
  EXPECT_EQ(part("bytes=4-", 10), std::pair(std::uint64_t{4}, std::uint64_t{6}));
  EXPECT_EQ(part("bytes=-3", 10), std::pair(std::uint64_t{7}, std::uint64_t{3}));
  EXPECT_EQ(part("bytes=2-99", 10), std::pair(std::uint64_t{2}, std::uint64_t{8}));
  EXPECT_EQ(part("bytes=-99", 10), std::pair(std::uint64_t{0}, std::uint64_t{10}));
}

TEST(ByteRange, NothingInsideIsUnsatisfiable) {
  EXPECT_FALSE(resolve(*parse_range("bytes=10-"), 10));
  EXPECT_FALSE(resolve(*parse_range("bytes=0-"), 0));
  EXPECT_FALSE(resolve(*parse_range("bytes=-0"), 10));
}

TEST(ByteRange, MalformedHeadersAreIgnored) {
  for (const char* header : {"", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=5-2", "bytes=0-1,3-4",
                             "items=0-1", "bytes=99999999999999999999-", "bytes=+1-2"}) {
    EXPECT_FALSE(parse_range(header)) << header;
  }
}

}  // namespace
}  // namespace space::http
