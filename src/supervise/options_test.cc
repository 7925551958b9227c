// SPDX-License-Identifier: Apache-2.0
#include "supervise/options.h"

#include <gtest/gtest.h>

#include "lib/os/file.h"

namespace space::supervise {
namespace {

struct OptionsTest : ::testing::Test {
  std::string dir;
  void SetUp() override {
    char pattern[] = "/tmp/space-options-XXXXXX";
    dir = ::mkdtemp(pattern);
  }
  void TearDown() override { os::remove_tree(dir).ignore("test clean-up"); }
  std::string file(const std::string& text) {
    os::write_file_atomic(dir + "/space.toml", text, os::Durability::kBuffered).value();
    return dir + "/space.toml";
  }
};

TEST_F(OptionsTest, ThePrintedConfigurationReadsBackTheSame) {
  auto first = parse_arguments({"--data", "/x \"y\"", "--templates", "/a", "--templates", "/b", "--min-free",
                                "3GiB", "--accel", "tcg", "--uid-base", "70000", "--print-config"});
  ASSERT_TRUE(first.ok()) << first.error().message;
  ASSERT_EQ(first->action, Request::Action::kPrintConfig);
  auto second = parse_arguments({"--config", file(first->text), "--print-config"});
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(first->text, second->text);
  EXPECT_EQ(second->options.templates, (std::vector<std::string>{"/a", "/b"}));
  EXPECT_EQ(second->options.min_free, 3ULL << 30);
}

TEST_F(OptionsTest, TheCommandLineWinsOverTheFile) {
  auto config = file("[server]\nlisten = \"127.0.0.1:1\"\ndata = \"/f\"\n[node]\ntemplates = [\"/f\"]\n");
  auto request = parse_arguments({"--config", config, "--listen", "127.0.0.1:2", "--templates", "/c"});
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->options.listen, "127.0.0.1:2");
  EXPECT_EQ(request->options.data, "/f");
  EXPECT_EQ(request->options.templates, std::vector<std::string>{"/c"});
}

TEST_F(OptionsTest, WhatTheFileGetsWrongIsNamedWithItsLine) {
  struct Case {
    const char* text;
    const char* said;
  };
  for (const Case& c :
       {Case{"[server]\n\nport = 3\n", "space.toml:3: unknown option [server] port"},
        Case{"data = \"x\"\n", "must stand in a section"},
        Case{"[node]\naccel = \"fast\"\n", "must be one of auto, kvm, tcg"},
        Case{"[server]\ndata = [\"a\"]\n", "not a list"},
        Case{"[node]\nuid_base = \"many\"\n", "must be a number"}, Case{"[server\n", "space.toml:1"}}) {
    auto request = parse_arguments({"--config", file(c.text)});
    ASSERT_FALSE(request.ok()) << c.text;
    EXPECT_NE(request.error().message.find(c.said), std::string::npos) << request.error().message;
  }
}

TEST_F(OptionsTest, AWrongCommandLineIsAUsageError) {
  EXPECT_EQ(parse_arguments({"--colour", "red"}).error().reason, "supervise.usage");
  EXPECT_EQ(parse_arguments({"--accel", "red"}).error().reason, "supervise.usage");
  EXPECT_EQ(parse_arguments({"--min-free", "lots"}).error().reason, "supervise.usage");
  EXPECT_EQ(parse_arguments({"--help"})->action, Request::Action::kHelp);
}

}  // namespace
}  // namespace space::supervise
