// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sizes and durations as people write them. Pure.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace space {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

// "512", "512KiB", "512M", "8GiB", "1T": bytes, powers of 1024. Errors: base.malformed_size (also on
// overflow).
Result<std::uint64_t> parse_size(std::string_view text);
// The shortest exact form: 536870912 -> "512MiB".
std::string format_size(std::uint64_t bytes);

// "90", "90s", "15m", "2h", "7d", "250ms": seconds when no unit is given. Errors: base.malformed_duration.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);
// 5400000 ms -> "1h30m".
std::string format_duration(std::chrono::milliseconds duration);

}  // namespace space
