// SPDX-License-Identifier: Apache-2.0
#pragma once
// The Range header with one range of bytes. Pure. Posture: hostile-network.

#include <cstdint>
#include <optional>
#include <string_view>

namespace space::http {

struct ByteRange {
  std::optional<std::uint64_t> first;  // absent: the last `last` bytes
  std::optional<std::uint64_t> last;   // inclusive; absent: to the end
};

// "bytes=0-99", "bytes=100-", "bytes=-50". Nothing for a header that is malformed or lists several ranges: as
// HTTP wants, such a header is ignored and the whole is sent.
std::optional<ByteRange> parse_range(std::string_view header);

struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};
// The part of a thing of `size` bytes; nothing when no byte of it lies in the range (416).
std::optional<Extent> resolve(const ByteRange& range, std::uint64_t size);

}  // namespace space::http
