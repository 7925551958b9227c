// SPDX-License-Identifier: Apache-2.0
#include "node/template/tool.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include "node/template/test_dir.h"

namespace space::node::tmpl {
namespace {

Reporter quiet() {
  return Reporter({});
}

TEST(Tool, OutputOfBothStreamsComesBackByLines) {
  Reporter reporter = quiet();
  std::vector<std::string> seen;
  Tool tool;
  tool.argv = {"python3", "-c", "import sys; print('one', flush=True); print('two', file=sys.stderr)"};
  const auto out = run_tool(tool, reporter, [&](std::string_view line) { seen.emplace_back(line); });
  ASSERT_TRUE(out.ok()) << out.error().describe();
  EXPECT_EQ(*out, "one\ntwo\n");
  EXPECT_EQ(seen, (std::vector<std::string>{"one", "two"}));
}

TEST(Tool, ArgumentsAreNotReadByAShell) {
  Reporter reporter = quiet();
  Tool tool;
  tool.argv = {"printf", "%s", "$HOME; `id` *"};
  EXPECT_EQ(run_tool(tool, reporter).value(), "$HOME; `id` *");
}

TEST(Tool, EnvironmentIsOnlyWhatIsGiven) {
  ::setenv("SPACE_TEST_SECRET", "x", 1);
  Reporter reporter = quiet();
  Tool tool;
  tool.argv = {"env"};
  tool.environment = {"GIVEN=1"};
  const std::string out = run_tool(tool, reporter).value();
  ::unsetenv("SPACE_TEST_SECRET");
  EXPECT_NE(out.find("GIVEN=1\n"), std::string::npos);
  EXPECT_EQ(out.find("SPACE_TEST_SECRET"), std::string::npos);
}

TEST(Tool, FailureCarriesStatusAndLastLines) {
  Reporter reporter = quiet();
  Tool tool;
  tool.argv = {"python3", "-c", "print('the reason'); raise SystemExit(3)"};
  const auto out = run_tool(tool, reporter);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().reason, "template.tool_failed");
  EXPECT_NE(out.error().message.find("status 3"), std::string::npos);
  EXPECT_NE(out.error().message.find("the reason"), std::string::npos);
}

TEST(Tool, AbsentProgramIsNamed) {
  Reporter reporter = quiet();
  Tool tool;
  tool.argv = {"space-no-such-program"};
  const auto out = run_tool(tool, reporter);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().reason, "template.tool_missing");
}

TEST(Tool, OwnNamespacesHideMountsAndProcesses) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const TestDir dir;
  dir.write("from/file", "inside");
  os::make_directory(dir / "to").value();
  Reporter reporter = quiet();
  Tool tool;
  tool.namespaces = Namespaces::kOwn;
  tool.binds = {{dir / "from", dir / "to"}};
  tool.argv = {"python3", "-c", "import os,sys; print(os.getpid(), open(sys.argv[1]).read())",
               dir / "to/file"};
  EXPECT_EQ(run_tool(tool, reporter).value(), "1 inside\n");
  EXPECT_FALSE(os::exists(dir / "to/file"));  // the mount is gone with the namespace
}

TEST(Tool, LeftOverChildOfAToolInOwnNamespacesDiesWithIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  Reporter reporter = quiet();
  Tool tool;
  tool.namespaces = Namespaces::kOwn;
  // The grandchild holds the pipe open for ever: run_tool returns only because it is killed.
  tool.argv = {"python3", "-c", "import subprocess; subprocess.Popen(['sleep', 'infinity'])"};
  EXPECT_TRUE(run_tool(tool, reporter).ok());
}

TEST(ClassifyFailure, WordsOfAptBecomeReasons) {
  EXPECT_EQ(classify_failure("mmdebstrap", "failed", "dpkg: error: No space left on device\n").reason,
            "template.no_space");
  EXPECT_EQ(
      classify_failure("apt-get", "failed", "Err:1 x\n  Temporary failure resolving 'mirror.test'\n").reason,
      "template.no_network");
  const Error unknown =
      classify_failure("mmdebstrap", "failed", "Reading...\nE: Unable to locate package pyhton3\nE: x\n");
  EXPECT_EQ(unknown.reason, "template.package_not_found");
  EXPECT_EQ(unknown.field, "packages");
  EXPECT_EQ(unknown.message, "E: Unable to locate package pyhton3");
}

TEST(Reporter, LinesCarryTheTimeSinceTheStart) {
  std::vector<Progress> seen;
  Reporter reporter([&](const Progress& p) { seen.push_back(p); });
  reporter.say("first");
  reporter.still_busy();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[1].line, "still: first");
  EXPECT_GE(seen[1].elapsed, seen[0].elapsed);
}

}  // namespace
}  // namespace space::node::tmpl
