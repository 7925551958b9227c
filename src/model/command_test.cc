// SPDX-License-Identifier: Apache-2.0
#include "model/command.h"

#include <gtest/gtest.h>

namespace space::model {
namespace {

std::string field(const Result<void>& outcome) {
  return outcome.ok() ? "ok" : outcome.error().field;
}

CommandRequest command(std::vector<std::string> argv) {
  CommandRequest request;
  request.argv = std::move(argv);
  return request;
}

TEST(CommandCheck, APlainCommandIsFine) {
  EXPECT_EQ(field(check_command(command({"true"}))), "ok");
}

TEST(CommandCheck, ArgvMustNameACommandWithoutNul) {
  EXPECT_EQ(field(check_command(command({}))), "argv");
  EXPECT_EQ(field(check_command(command({""}))), "argv");
  EXPECT_EQ(field(check_command(command({"echo", std::string("a\0b", 3)}))), "argv");
}

TEST(CommandCheck, EnvironmentNamesHaveNoEqualsSign) {
  auto request = command({"env"});
  request.env = {{"A=B", "c"}};
  EXPECT_EQ(field(check_command(request)), "env");
  request.env = {{"", "c"}};
  EXPECT_EQ(field(check_command(request)), "env");
  request.env = {{"A", "=c\n"}};
  EXPECT_EQ(field(check_command(request)), "ok");
}

TEST(CommandCheck, ALongCommandLineIsRefusedBeforeItIsSent) {
  auto request = command({"echo", std::string(kMaxCommandBytes, 'x')});
  EXPECT_EQ(check_command(request).error().reason, "model.command_too_large");
  request = command(std::vector<std::string>(4000, "x"));
  EXPECT_EQ(check_command(request).error().reason, "model.command_too_large");
}

TEST(CommandCheck, DirectoryUserTerminalAndIdAreChecked) {
  auto request = command({"true"});
  request.cwd = "relative";
  EXPECT_EQ(field(check_command(request)), "cwd");
  request = command({"true"});
  request.user = std::string(65, 'u');
  EXPECT_EQ(field(check_command(request)), "user");
  request = command({"true"});
  request.pty = PtySize{0, 80, ""};
  EXPECT_EQ(field(check_command(request)), "pty");
  request = command({"true"});
  request.command_id = "../x";
  EXPECT_EQ(field(check_command(request)), "command_id");
}

TEST(PathCheck, OnlyAbsolutePathsWithoutNul) {
  EXPECT_TRUE(check_path("/tmp/a\xff b").ok());
  EXPECT_TRUE(check_path("/tmp/../etc").ok());  // the guest's own files: nothing to protect from it
  for (std::string path :
       {std::string(), std::string("tmp"), std::string("/a\0b", 4), "/" + std::string(kMaxPathBytes, 'x')}) {
    EXPECT_FALSE(check_path(path).ok()) << path.size();
  }
  EXPECT_EQ(check_path("x", "from").error().field, "from");
}

TEST(NumberParsers, PortsModesAndSignalsHaveBounds) {
  EXPECT_EQ(*parse_port("65535"), 65535);
  for (const char* text : {"", "0", "65536", "-1", "80x", "99999999999999999999"})
    EXPECT_FALSE(parse_port(text).ok()) << text;
  EXPECT_EQ(*parse_mode("0644"), 0644U);
  EXPECT_EQ(*parse_mode("7777"), 07777U);
  for (const char* text : {"", "8", "0x1", "17777", "-644", "000644"})
    EXPECT_FALSE(parse_mode(text).ok()) << text;
  EXPECT_EQ(format_mode(0100644), "0644");
  EXPECT_EQ(format_mode(04755), "4755");
  EXPECT_FALSE(check_signal(0).ok());
  EXPECT_TRUE(check_signal(64).ok());
  EXPECT_FALSE(check_signal(65).ok());
}

}  // namespace
}  // namespace space::model
