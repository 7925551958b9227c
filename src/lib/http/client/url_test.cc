// SPDX-License-Identifier: Apache-2.0
#include "lib/http/client/url.h"

#include <gtest/gtest.h>

namespace space::http::client {
namespace {

TEST(ParseUrl, TakesHostPortAndPrefixApart) {
  EXPECT_EQ(*parse_url("http://localhost:7350"), (Endpoint{"localhost", "7350", ""}));
  EXPECT_EQ(*parse_url("http://10.0.0.1"), (Endpoint{"10.0.0.1", "80", ""}));
  EXPECT_EQ(*parse_url("http://[::1]:81/space/"), (Endpoint{"::1", "81", "/space"}));
  EXPECT_EQ(parse_url("http://[::1]:81/space/")->url(), "http://[::1]:81/space");
}

TEST(ParseUrl, RefusesWhatIsNoServer) {
  for (const char* bad : {"", "localhost:1", "ftp://x", "http://", "http://a:0", "http://a:65536",
                          "http://a:b", "http://a b", "http://[::1", "http://[::1]x", "http://a/b?c",
                          "http://a/b#c", "http://user@host", "http://a\r\nX: y"}) {
    EXPECT_EQ(parse_url(bad).error().reason, "http.bad_url") << bad;
  }
  EXPECT_EQ(parse_url("https://a").error().reason, "http.no_tls");
}

TEST(Query, EncodesWhatCouldEndAValue) {
  EXPECT_EQ(query({}), "");
  EXPECT_EQ(query({{"path", "/a b&c=d#\xff"}, {"x", "1"}}), "?path=%2Fa%20b%26c%3Dd%23%FF&x=1");
}

}  // namespace
}  // namespace space::http::client
