// SPDX-License-Identifier: Apache-2.0
#include "node/process/identity.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "node/process/child.h"
#include "node/process/run.h"

namespace space::node::process {
namespace {

using namespace std::chrono_literals;

TEST(StartTicks, SurviveStrangeProcessNames) {
  std::string fields = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 424242 20 21\n";
  EXPECT_EQ(*parse_start_ticks("17 (sh)" + fields), 424242U);
  EXPECT_EQ(*parse_start_ticks("17 (a) b (c d) 99 )" + fields), 424242U);
}

TEST(StartTicks, RefuseWhatIsCut) {
  EXPECT_FALSE(parse_start_ticks("").ok());
  EXPECT_FALSE(parse_start_ticks("17 (sh) S 1 2 3").ok());
  EXPECT_FALSE(parse_start_ticks("17 (sh) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x").ok());
}

TEST(ProcessIdentity, OpensTheProcessThatIsMeant) {
  auto identity = identify(::getpid());
  ASSERT_TRUE(identity.ok());
  EXPECT_TRUE(open_process(*identity).ok());
}

TEST(ProcessIdentity, APidOfAnotherTimeOrBootIsNotBelieved) {
  Identity earlier = *identify(::getpid());
  --earlier.start_ticks;
  EXPECT_EQ(open_process(earlier).error().reason, "node.process_gone");
  Identity other_boot = *identify(::getpid());
  other_boot.boot_id = "another";
  EXPECT_EQ(open_process(other_boot).error().reason, "node.process_gone");
}

TEST(ProcessIdentity, AnEndedProcessIsGoneEvenBeforeItIsReaped) {
  auto child = start_child({"sleep", "1000"});
  ASSERT_TRUE(child.ok());
  Identity identity = *identify(child->pid());
  auto pidfd = open_process(identity);
  ASSERT_TRUE(pidfd.ok());
  send_signal(pidfd->get(), SIGKILL);
  ASSERT_TRUE(wait_for_exit(pidfd->get(), std::chrono::steady_clock::now() + 10s));
  EXPECT_EQ(open_process(identity).error().reason, "node.process_gone");
  EXPECT_EQ(child->wait(10s)->signal, SIGKILL);
}

TEST(RunProgram, GivesOutputAndStatus) {
  auto finished = run({{"sh", "-c", "cat; echo err >&2; exit 3"}, "in\n"});
  ASSERT_TRUE(finished.ok()) << finished.error().describe();
  EXPECT_EQ(finished->exit_code, 3);
  EXPECT_EQ(finished->output, "in\nerr\n");
}

TEST(RunProgram, ThatIsMissingSaysSo) {
  EXPECT_EQ(run({{"/nonexistent/program"}, {}}).error().reason, "node.program_missing");
}

TEST(RunProgram, IsKilledAtItsLimit) {
  auto finished = run({{"sleep", "1000"}, {}, 50ms});
  EXPECT_EQ(finished.error().reason, "node.program_timeout");
}

TEST(RunProgram, KeepsNoMoreThanItsLimitOfOutput) {
  auto finished = run({{"sh", "-c", "head -c 300000 /dev/zero"}, {}, 10s, 1000});
  ASSERT_TRUE(finished.ok());
  EXPECT_EQ(finished->output.size(), 1000U);
}

}  // namespace
}  // namespace space::node::process
