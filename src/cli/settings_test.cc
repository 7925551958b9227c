// SPDX-License-Identifier: Apache-2.0
#include "cli/settings.h"

#include <gtest/gtest.h>

#include <map>

#include "lib/os/file.h"

namespace space::cli {
namespace {

struct SettingsTest : ::testing::Test {
  static std::map<std::string, std::string>& variables() {
    static std::map<std::string, std::string> all;
    return all;
  }
  static const char* lookup(const char* name) {
    auto found = variables().find(name);
    return found == variables().end() ? nullptr : found->second.c_str();
  }
  std::string home;
  void SetUp() override {
    char pattern[] = "/tmp/space-settings-XXXXXX";
    home = ::mkdtemp(pattern);
    variables() = {{"HOME", home}};
  }
  void TearDown() override { os::remove_tree(home).ignore("test clean-up"); }
  void config(const std::string& text) const {
    os::make_directories(home + "/.config/space").value();
    os::write_file_atomic(home + "/.config/space/config.toml", text, os::Durability::kBuffered).value();
  }
};

TEST_F(SettingsTest, DefaultsToThisMachineWithoutAKey) {
  auto settings = load_settings({}, lookup);
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->endpoint.url(), kDefaultUrl);
  EXPECT_EQ(settings->key, "");
}

TEST_F(SettingsTest, FlagsWinOverTheEnvironmentAndThatOverTheFile) {
  config("url = \"http://file:1\"\nkey = \"filekey\"\n");
  EXPECT_EQ(load_settings({}, lookup)->endpoint.host, "file");
  EXPECT_EQ(load_settings({}, lookup)->key, "filekey");
  variables()["SPACE_URL"] = "http://env:1";
  variables()["SPACE_KEY"] = "envkey";
  EXPECT_EQ(load_settings({}, lookup)->endpoint.host, "env");
  EXPECT_EQ(load_settings({}, lookup)->key, "envkey");
  os::write_file_atomic(home + "/key", "flagkey\n", os::Durability::kBuffered).value();
  EXPECT_EQ(load_settings({"http://flag:1", home + "/key"}, lookup)->endpoint.host, "flag");
  EXPECT_EQ(load_settings({"http://flag:1", home + "/key"}, lookup)->key, "flagkey");
}

TEST_F(SettingsTest, WhatIsWrongIsNamed) {
  config("colour = \"red\"\n");
  EXPECT_NE(load_settings({}, lookup).error().message.find("colour"), std::string::npos);
  config("url = 3\n");
  EXPECT_NE(load_settings({}, lookup).error().message.find("url must be a string"), std::string::npos);
  config("url = \"x\n");
  EXPECT_NE(load_settings({}, lookup).error().message.find("config.toml:1"), std::string::npos);
  config("key = \"two words\"\n");
  EXPECT_EQ(load_settings({}, lookup).error().reason, "cli.usage");
  config("");
  EXPECT_EQ(load_settings({"ftp://x", std::nullopt}, lookup).error().reason, "cli.usage");
  EXPECT_EQ(load_settings({std::nullopt, home + "/nothing"}, lookup).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace space::cli
