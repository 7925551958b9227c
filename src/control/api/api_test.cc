// SPDX-License-Identifier: Apache-2.0
// The pure parts of the API: parsing, rendering, statuses.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "control/api/http_status.h"
#include "control/api/parse.h"
#include "control/api/render.h"
#include "control/api/utf8.h"

namespace space::control::api {
namespace {

std::string field(const auto& outcome) {
  return outcome.ok() ? "ok" : outcome.error().field;
}
std::string reason(const auto& outcome) {
  return outcome.ok() ? "ok" : outcome.error().reason;
}

TEST(Utf8, ValidTextStaysAsItIs) {
  for (std::string text :
       {std::string(), std::string("plain"), std::string("grüß €𐍈"), std::string("\0\x7f", 2)}) {
    EXPECT_EQ(to_valid_utf8(text), text);
  }
}

TEST(Utf8, EachInvalidPartBecomesOneReplacement) {
  const std::string kR = "\xef\xbf\xbd";
  EXPECT_EQ(to_valid_utf8("a\xff"), "a" + kR);
  EXPECT_EQ(to_valid_utf8("\xe2\x82"), kR);                         // cut
  EXPECT_EQ(to_valid_utf8("\xe2\x82z"), kR + "z");                  // broken off
  EXPECT_EQ(to_valid_utf8("\xc0\xaf"), kR + kR);                    // overlong
  EXPECT_EQ(to_valid_utf8("\xed\xa0\x80"), kR + kR + kR);           // surrogate
  EXPECT_EQ(to_valid_utf8("\xf4\x90\x80\x80"), kR + kR + kR + kR);  // beyond U+10FFFF
}

TEST(Utf8, EveryTwoBytesGiveTextThatJsonAccepts) {
  for (int high = 0; high < 256; ++high) {
    for (int low = 0; low < 256; ++low) {
      guestapi::FileInfoT info;
      info.path = {static_cast<char>(high), static_cast<char>(low)};
      boost::json::error_code error;
      boost::json::parse(file_json(info), error);
      ASSERT_FALSE(error) << high << " " << low;
    }
  }
}

TEST(ParseSession, AbsentAndNullFieldsTakeDefaults) {
  auto request = *parse_session_request(R"({"name":null})");
  EXPECT_FALSE(request.name);
  EXPECT_EQ(request.template_name, "base");
  EXPECT_EQ(request.ttl_seconds, model::kDefaultTtlSeconds);
  EXPECT_TRUE(parse_session_request("").ok());
  EXPECT_TRUE(parse_session_request(" \r\n").ok());
}

TEST(ParseSession, UnknownFieldsAndWrongTypesAreNamed) {
  EXPECT_EQ(field(parse_session_request(R"({"x":1})")), "x");
  EXPECT_EQ(field(parse_session_request(R"({"memory_bytes":"1"})")), "memory_bytes");
  EXPECT_EQ(field(parse_session_request(R"({"memory_bytes":-1})")), "memory_bytes");
  EXPECT_EQ(field(parse_session_request(R"({"memory_bytes":1e3})")), "memory_bytes");
  EXPECT_EQ(field(parse_session_request(R"({"labels":[]})")), "labels");
  EXPECT_EQ(reason(parse_session_request("[]")), "control.malformed_json");
  EXPECT_EQ(reason(parse_session_request("{\"name\":\"\xff\"}")), "control.malformed_json");
  EXPECT_EQ(reason(parse_session_request(std::string(100'000, '['))), "control.malformed_json");
}

TEST(ParseCommand, TakesEverythingAndNamesNestedFields) {
  auto command = *parse_command(
      R"({"argv":["a","b"],"env":{"X":"y"},"cwd":"/","user":"u","pty":{"rows":1,"cols":2},"stdin":true,"timeout_ms":5,"detached":true,"command_id":"c"})");
  EXPECT_EQ(command.argv.size(), 2U);
  EXPECT_EQ(command.pty->cols, 2U);
  EXPECT_TRUE(command.open_stdin && command.detached);
  EXPECT_EQ(field(parse_command(R"({"argv":["a"],"pty":{"rows":1,"colour":2}})")), "pty.colour");
  EXPECT_EQ(field(parse_command(R"({"argv":["a"],"pty":{"rows":"1"}})")), "pty.rows");
  EXPECT_EQ(field(parse_command(R"({"argv":"a"})")), "argv");
  EXPECT_EQ(field(parse_command(R"({"argv":[1]})")), "argv");
  EXPECT_EQ(field(parse_command(R"({"argv":["a"],"command_id":""})")), "command_id");
  EXPECT_EQ(field(parse_command(R"({"argv":["a"],"env":{"A":1}})")), "env");
  EXPECT_EQ(field(parse_command("{\"argv\":[\"a\\u0000b\"]}")), "argv");
}

TEST(Canonical, OrderAndSpaceDoNotMatter) {
  EXPECT_EQ(*canonical(R"({"b":{"y":1,"x":[2,{"q":1,"p":2}]},"a":"s"})"),
            *canonical(R"( {"a":"s", "b":{"x":[2,{"p":2,"q":1}],"y":1}} )"));
  EXPECT_NE(*canonical(R"({"a":1})"), *canonical(R"({"a":2})"));
  EXPECT_NE(*canonical(R"({"a":[1,2]})"), *canonical(R"({"a":[2,1]})"));
}

TEST(Render, ValuesOfGuestsNeverBreakAnAnswer) {
  guestapi::MetricsT metrics;
  metrics.load1 = std::numeric_limits<float>::infinity();
  boost::json::error_code error;
  boost::json::parse(metrics_json(metrics), error);
  EXPECT_FALSE(error);
  guestapi::FileInfoT info;
  info.modified_ms = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(file_json(info).find("9999-12-31"), std::string::npos);
  guestapi::CommandInfoT command;
  command.started_ms = std::numeric_limits<std::uint64_t>::max();
  EXPECT_NE(command_json(command).find("9999-12-31"), std::string::npos);
  EXPECT_NE(error_json(make_error(Code::kNotFound, "guest.x", "\xff\"\n")).find("\\n"), std::string::npos);
}

TEST(HttpStatus, ComesFromTheReasonAndElseFromTheCode) {
  EXPECT_EQ(http_status(make_error(Code::kInvalidArgument, "http.body_too_large", "")), 413U);
  EXPECT_EQ(http_status(make_error(Code::kResourceExhausted, "guest.disk_full", "")), 507U);
  EXPECT_EQ(http_status(make_error(Code::kResourceExhausted, "node.no_memory", "")), 429U);
  EXPECT_EQ(http_status(make_error(Code::kUnavailable, "some.thing_new", "")), 503U);
}

}  // namespace
}  // namespace space::control::api
