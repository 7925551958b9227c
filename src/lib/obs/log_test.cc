// SPDX-License-Identifier: Apache-2.0
#include "lib/obs/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace space::obs {
namespace {

TEST(LogTest, HostileValuesStayInsideTheirString) {
  EXPECT_EQ(json_quote("a\"b\\c\n\x1b[31m"), "\"a\\\"b\\\\c\\u000a\\u001b[31m\"");
  EXPECT_EQ(json_quote("gr\xc3\xbc\xc3\x9f"), "\"gr\xc3\xbc\xc3\x9f\"");
  EXPECT_EQ(json_quote("\xff\xc3\xed\xa0\x80"), "\"\\u00ff\\u00c3\\u00ed\\u00a0\\u0080\"");
}

TEST(LogTest, OneObjectALineAndLevelsAreFiltered) {
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  SimulatedClock clock;
  Log log(fds[1], "node", clock);
  log.debug("hidden");
  log.info("started", {{"sandbox", "abc"}});
  char buffer[512];
  auto got = ::read(fds[0], buffer, sizeof buffer);
  EXPECT_EQ(std::string(buffer, static_cast<std::size_t>(got)),
            "{\"time\":\"2025-06-15T15:06:40.000Z\",\"level\":\"info\",\"process\":\"node\",\"event\":"
            "\"started\",\"sandbox\":\"abc\"}\n");
}

}  // namespace
}  // namespace space::obs
