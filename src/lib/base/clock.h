// SPDX-License-Identifier: Apache-2.0
#pragma once
// Time as a constructor argument. Durations come from the monotonic clock; wall time is for people and
// records.

#include <chrono>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace space {

using Monotonic = std::chrono::steady_clock::time_point;
using WallTime = std::chrono::sys_time<std::chrono::microseconds>;

class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Monotonic now() const = 0;
  [[nodiscard]] virtual WallTime wall() const = 0;
};

class SystemClock final : public Clock {
 public:
  [[nodiscard]] Monotonic now() const override { return std::chrono::steady_clock::now(); }
  [[nodiscard]] WallTime wall() const override {
    return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
  }
};

// Stands still until a test moves it.
class SimulatedClock final : public Clock {
 public:
  [[nodiscard]] Monotonic now() const override { return now_; }
  [[nodiscard]] WallTime wall() const override { return wall_; }
  void advance(std::chrono::microseconds by) {
    now_ += by;
    wall_ += by;
  }

 private:
  Monotonic now_{std::chrono::hours(1)};
  WallTime wall_{std::chrono::seconds(1'750'000'000)};
};

// RFC 3339 in UTC with milliseconds: 2026-11-30T22:28:00.123Z
std::string to_rfc3339(WallTime time);
// Accepts what to_rfc3339 writes, with 0 to 6 fraction digits and a literal Z.
Result<WallTime> parse_rfc3339(std::string_view text);

}  // namespace space
