// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cerrno>

#include "lib/base/bytes.h"
#include "lib/base/clock.h"
#include "lib/base/id.h"
#include "lib/base/result.h"
#include "lib/base/size.h"

namespace space {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return make_error(Code::kInvalidArgument, "test.odd", "odd");
  return n / 2;
}
Result<int> quarter(int n) {
  SPACE_TRY(int h, half(n));
  return half(h);
}

TEST(ResultTest, TryPassesTheErrorOn) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().reason, "test.odd");
}

TEST(ErrorTest, ContextIsPutInFront) {
  EXPECT_EQ(make_error(Code::kNotFound, "a.b", "no file").context("cannot start").message,
            "cannot start: no file");
}

TEST(ErrorTest, ErrnoChoosesTheCode) {
  EXPECT_EQ(errno_error(ENOSPC, "x.y", "write").code, Code::kResourceExhausted);
  EXPECT_EQ(errno_error(ENOENT, "x.y", "open").message, "open: No such file or directory");
}

TEST(ErrorTest, EveryCodeNameRoundTrips) {
  for (std::uint8_t i = 0; i <= kMaxCode; ++i) {
    EXPECT_EQ(code_from_string(to_string(static_cast<Code>(i))), static_cast<Code>(i));
  }
}

TEST(BytesTest, EscapeLeavesNothingThatATerminalObeys) {
  EXPECT_EQ(escape("a\x1b[2J\n\xff"), "a\\x1b[2J\\x0a\\xff");
  EXPECT_EQ(escape("abcdef", 3), "abc...");
}

TEST(IdTest, RefusesWhatIsNotALabel) {
  EXPECT_FALSE(SessionId::parse("short").ok());
  EXPECT_FALSE(SessionId::parse("UPPERCASEUPPERCASE12").ok());
  EXPECT_FALSE(SessionId::parse("../../../../etc/passwd").ok());
  EXPECT_EQ(SessionId::parse("").error().field, "session");
  EXPECT_TRUE(SessionId::parse("abcdefghij0123456789").ok());
}

TEST(SizeTest, ParsesWhatPeopleWrite) {
  EXPECT_EQ(*parse_size("512MiB"), 512 * kMiB);
  EXPECT_EQ(*parse_size("8G"), 8 * kGiB);
  EXPECT_EQ(*parse_size("17"), 17U);
  for (const char* bad : {"", "MiB", "-1", "1.5G", "1X", "99999999999999999999", "99999999999T"}) {
    EXPECT_FALSE(parse_size(bad).ok()) << bad;
  }
}

TEST(SizeTest, FormatIsExact) {
  EXPECT_EQ(format_size(8 * kGiB), "8GiB");
  EXPECT_EQ(format_size(1025), "1025");
  EXPECT_EQ(format_size(0), "0");
}

TEST(DurationTest, ParsesAndRefuses) {
  EXPECT_EQ(*parse_duration("90"), std::chrono::seconds(90));
  EXPECT_EQ(*parse_duration("250ms"), std::chrono::milliseconds(250));
  EXPECT_EQ(*parse_duration("7d"), std::chrono::days(7));
  for (const char* bad : {"", "s", "-5s", "1y", "18446744073709551615d"})
    EXPECT_FALSE(parse_duration(bad).ok()) << bad;
  EXPECT_EQ(format_duration(std::chrono::minutes(90)), "1h30m");
}

TEST(TimeTest, Rfc3339RoundTrips) {
  WallTime t = *parse_rfc3339("2026-11-30T22:28:00.123Z");
  EXPECT_EQ(to_rfc3339(t), "2026-11-30T22:28:00.123Z");
  for (const char* bad : {"2026-02-30T00:00:00Z", "2026-11-30T24:00:00Z", "2026-11-30 22:28:00Z",
                          "2026-11-30T22:28:00", "2026-11-30T22:28:00.Z"}) {
    EXPECT_FALSE(parse_rfc3339(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace space
