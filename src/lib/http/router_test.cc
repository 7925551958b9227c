// SPDX-License-Identifier: Apache-2.0
#include "lib/http/router.h"

#include <gtest/gtest.h>

namespace space::http {
namespace {

using Kind = Router::Match::Kind;

struct RouterTest : ::testing::Test {
  Router router;
  void SetUp() override {
    router.add("GET", "/v1/things", 1);
    router.add("POST", "/v1/things", 2);
    router.add("GET", "/v1/things/{thing}", 3);
    router.add("GET", "/v1/things/special", 4);
    router.add("GET", "/v1/things/{thing}/parts/{part}", 5);
  }
};

TEST_F(RouterTest, ParametersTakeOneSegment) {
  auto match = router.match("GET", {"v1", "things", "a/b", "parts", "7"});
  ASSERT_EQ(match.kind, Kind::kFound);
  EXPECT_EQ(match.handler, 5U);
  EXPECT_EQ(match.parameters["thing"], "a/b");
  EXPECT_EQ(match.parameters["part"], "7");
}

TEST_F(RouterTest, AFixedSegmentWinsOverAParameter) {
  EXPECT_EQ(router.match("GET", {"v1", "things", "special"}).handler, 4U);
  EXPECT_EQ(router.match("GET", {"v1", "things", "other"}).handler, 3U);
}

TEST_F(RouterTest, AWrongMethodSaysWhatIsAllowed) {
  auto match = router.match("PUT", {"v1", "things"});
  EXPECT_EQ(match.kind, Kind::kWrongMethod);
  EXPECT_EQ(match.allowed, "GET, POST");
}

TEST_F(RouterTest, UnknownAndEmptySegmentsAreNotFound) {
  EXPECT_EQ(router.match("GET", {"v1", "other"}).kind, Kind::kNotFound);
  EXPECT_EQ(router.match("GET", {"v1", "things", ""}).kind, Kind::kNotFound);
  EXPECT_EQ(router.match("GET", {"v1", "things", "x", "y"}).kind, Kind::kNotFound);
}

}  // namespace
}  // namespace space::http
