// SPDX-License-Identifier: Apache-2.0
#include "supervise/log_file.h"

#include <gtest/gtest.h>

#include "lib/os/file.h"

namespace space::supervise {
namespace {

struct LogFileTest : ::testing::Test {
  std::string dir;
  std::string path;
  void SetUp() override {
    char pattern[] = "/tmp/space-log-XXXXXX";
    dir = ::mkdtemp(pattern);
    path = dir + "/a.log";
  }
  void TearDown() override { os::remove_tree(dir).ignore("test clean-up"); }
};

TEST_F(LogFileTest, AStartPutsTheOldFileAsideAndKeepsThree) {
  for (int i = 0; i < 6; ++i) LogFile::open(path)->append("start " + std::to_string(i));
  EXPECT_EQ(*os::read_file(path), "start 5");
  EXPECT_EQ(*os::read_file(path + ".1"), "start 4");
  EXPECT_EQ(os::list_directory(dir)->size(), 4U);
}

TEST_F(LogFileTest, AFullFileIsFollowedByANewOne) {
  auto log = LogFile::open(path, 100);
  for (int i = 0; i < 50; ++i) log->append("0123456789");
  EXPECT_LE(os::read_file(path)->size(), 100U);
  EXPECT_EQ(os::read_file(path + ".1")->size(), 100U);
  EXPECT_EQ(os::list_directory(dir)->size(), 4U);
}

TEST(LineSplitter, GivesWholeLinesAndCutsEndlessOnes) {
  LineSplitter splitter;
  std::vector<std::string> lines;
  auto take = [&](std::string_view line) { lines.emplace_back(line); };
  splitter.feed("a\nb", take);
  splitter.feed("c\n\n", take);
  EXPECT_EQ(lines, (std::vector<std::string>{"a", "bc"}));
  lines.clear();
  splitter.feed(std::string(LineSplitter::kMaxLine * 2 + 5, 'x'), take);
  EXPECT_EQ(lines.size(), 2U);
}

TEST(LineToShow, ShowsWarningsShortlyAndUnknownLinesEscaped) {
  EXPECT_EQ(line_to_show("n", R"({"time":"t","level":"info","process":"n","event":"e"})"), std::nullopt);
  EXPECT_EQ(
      *line_to_show("n", R"({"time":"t","level":"error","process":"n","event":"broken","why":"x\u001b[0m"})"),
      "n: error: broken why=x\\x1b[0m");
  EXPECT_EQ(*line_to_show("n", "Assertion \x1b[31m failed"), "n: Assertion \\x1b[31m failed");
  EXPECT_EQ(*line_to_show("n", "{broken"), "n: {broken");
}

}  // namespace
}  // namespace space::supervise
