// SPDX-License-Identifier: Apache-2.0
#include "lib/base/size.h"

#include <array>
#include <charconv>
#include <limits>
#include <utility>

namespace space {
namespace {

struct Split {
  std::uint64_t number;
  std::string_view unit;
};

// Leading decimal digits and the rest; false when there is no digit or too many.
bool split(std::string_view text, Split& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.number);
  if (error != std::errc()) return false;
  out.unit = text.substr(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  auto bad = [&] {
    return make_error(Code::kInvalidArgument, "base.malformed_size",
                      "a size is a number of bytes or has a unit: 512MiB, 8GiB");
  };
  Split parts{};
  if (!split(text, parts)) return bad();
  static constexpr std::array<std::string_view, 5> kUnits = {"", "K", "M", "G", "T"};
  std::string_view unit = parts.unit;
  if (unit == "B") unit = "";
  if (unit.size() == 3 && unit.substr(1) == "iB") unit = unit.substr(0, 1);
  for (std::size_t i = 0; i < kUnits.size(); ++i) {
    if (unit != kUnits[i]) continue;
    unsigned shift = static_cast<unsigned>(i) * 10;
    if (parts.number > (std::numeric_limits<std::uint64_t>::max() >> shift)) return bad();
    return parts.number << shift;
  }
  return bad();
}

std::string format_size(std::uint64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (unit + 1 < kUnits.size() && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + kUnits[unit];
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  auto bad = [&] {
    return make_error(Code::kInvalidArgument, "base.malformed_duration",
                      "a duration looks like 250ms, 90s, 15m, 2h or 7d");
  };
  static constexpr std::array<std::pair<std::string_view, std::uint64_t>, 6> kUnits = {
      {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}}};
  constexpr std::uint64_t kMax = 100ULL * 365 * 86'400'000;  // a century: keeps every sum of times in range
  Split parts{};
  if (!split(text, parts)) return bad();
  for (auto [unit, factor] : kUnits) {
    if (parts.unit != unit) continue;
    if (parts.number > kMax / factor) return bad();
    return std::chrono::milliseconds(parts.number * factor);
  }
  return bad();
}

std::string format_duration(std::chrono::milliseconds duration) {
  auto rest = duration.count();
  if (rest <= 0) return "0s";
  std::string out;
  static constexpr std::array<std::pair<const char*, std::int64_t>, 5> kUnits = {
      {{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1000}, {"ms", 1}}};
  for (auto [unit, factor] : kUnits) {
    if (auto count = rest / factor; count != 0) out += std::to_string(count) + unit;
    rest %= factor;
  }
  return out;
}

}  // namespace space
