// SPDX-License-Identifier: Apache-2.0
#include "lib/http/target.h"

#include <gtest/gtest.h>

namespace space::http {
namespace {

using Segments = std::vector<std::string>;

TEST(Target, SegmentsAreDecodedAfterTheSplit) {
  EXPECT_EQ(parse_target("/v1/a%2Fb")->segments, (Segments{"v1", "a/b"}));
  EXPECT_EQ(parse_target("/")->segments, (Segments{""}));
  EXPECT_EQ(parse_target("/a//b/")->segments, (Segments{"a", "", "b", ""}));
}

TEST(Target, QueryKeepsEveryByte) {
  auto target = *parse_target("/f?path=/a+b%20%ff%00&x&y=&z=1=2#frag");
  EXPECT_EQ(*target.parameter("path"), std::string("/a+b \xff\0", 7));
  EXPECT_EQ(*target.parameter("x"), "");
  EXPECT_EQ(*target.parameter("z"), "1=2");
  EXPECT_EQ(target.parameter("q"), nullptr);
}

TEST(Target, OtherFormsAndBrokenEscapesAreRefused) {
  for (const char* text : {"", "*", "http://x/y", "a", "/%", "/%2", "/%zz", "/?a=%f"}) {
    EXPECT_EQ(parse_target(text).error().reason, "http.malformed_target") << text;
  }
}

}  // namespace
}  // namespace space::http
