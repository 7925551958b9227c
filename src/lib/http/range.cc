// SPDX-License-Identifier: Apache-2.0
#include "lib/http/range.h"

#include <algorithm>
#include <charconv>

namespace space::http {
namespace {

bool parse_number(std::string_view text, std::optional<std::uint64_t>& out) {
  if (text.empty()) return true;
  std::uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  out = value;
  return true;
}

}  // namespace

std::optional<ByteRange> parse_range(std::string_view header) {
  constexpr std::string_view kUnit = "bytes=";
  if (header.substr(0, kUnit.size()) != kUnit) return std::nullopt;
  header.remove_prefix(kUnit.size());
  auto dash = header.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  ByteRange range;
  if (!parse_number(header.substr(0, dash), range.first) ||
      !parse_number(header.substr(dash + 1), range.last))
    return std::nullopt;
  if (!range.first && !range.last) return std::nullopt;
  if (range.first && range.last && *range.last < *range.first) return std::nullopt;
  return range;
}

std::optional<Extent> resolve(const ByteRange& range, std::uint64_t size) {
  if (!range.first) {
    std::uint64_t length = std::min(*range.last, size);
    if (length == 0) return std::nullopt;
    return Extent{size - length, length};
  }
  if (*range.first >= size) return std::nullopt;
  std::uint64_t last = std::min(range.last.value_or(size - 1), size - 1);
  return Extent{*range.first, last - *range.first + 1};
}

}  // namespace space::http
