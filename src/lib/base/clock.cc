// SPDX-License-Identifier: Apache-2.0
#include "lib/base/clock.h"

#include <cstdio>

namespace space {

std::string to_rfc3339(WallTime time) {
  auto day = std::chrono::floor<std::chrono::days>(time);
  std::chrono::year_month_day date(day);
  std::chrono::hh_mm_ss clock(std::chrono::floor<std::chrono::milliseconds>(time - day));
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()), static_cast<int>(clock.subseconds().count()));
  return buffer;
}

Result<WallTime> parse_rfc3339(std::string_view text) {
  auto bad = [] {
    return make_error(Code::kInvalidArgument, "base.malformed_time",
                      "time must look like 2026-11-30T22:28:00Z");
  };
  // Positions are fixed up to the seconds; `d` stands for a digit.
  constexpr std::string_view kShape = "dddd-dd-ddTdd:dd:dd";
  if (text.size() < kShape.size() + 1 || text.back() != 'Z') return bad();
  auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    if (kShape[i] == 'd' ? !is_digit(text[i]) : text[i] != kShape[i]) return bad();
  }
  auto number = [&](std::size_t at, std::size_t count) {
    int value = 0;
    for (std::size_t i = at; i < at + count; ++i) value = value * 10 + (text[i] - '0');
    return value;
  };
  std::chrono::year_month_day date{std::chrono::year(number(0, 4)),
                                   std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                   std::chrono::day(static_cast<unsigned>(number(8, 2)))};
  if (!date.ok() || number(11, 2) > 23 || number(14, 2) > 59 || number(17, 2) > 59) return bad();
  WallTime time = std::chrono::sys_days(date) + std::chrono::hours(number(11, 2)) +
                  std::chrono::minutes(number(14, 2)) + std::chrono::seconds(number(17, 2));
  auto fraction = text.substr(kShape.size(), text.size() - kShape.size() - 1);
  if (!fraction.empty()) {
    if (fraction[0] != '.' || fraction.size() < 2 || fraction.size() > 7) return bad();
    int scale = 100'000;
    for (char c : fraction.substr(1)) {
      if (!is_digit(c)) return bad();
      time += std::chrono::microseconds((c - '0') * scale);
      scale /= 10;
    }
  }
  return time;
}

}  // namespace space
