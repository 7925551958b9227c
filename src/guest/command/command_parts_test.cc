// SPDX-License-Identifier: Apache-2.0
// Users, environment and limits of commands.
#include <gtest/gtest.h>

#include <algorithm>

#include "guest/command/cgroup_tree.h"
#include "guest/command/environment.h"
#include "guest/command/users.h"
#include "lib/base/size.h"

namespace space::guest {
namespace {

constexpr std::string_view kPasswd =
    "root:x:0:0:root:/root:/bin/bash\n"
    "broken line\n"
    "# comment:x:notanumber:0:::\n"
    "agent:x:1000:1001:An Agent,,,:/home/agent:/bin/zsh\n"
    "1234:x:77:77::/named-like-a-number:/bin/sh\n"
    "last:x:5:6::/:/bin/sh";
constexpr std::string_view kGroup =
    "root:x:0:\nagents:x:1001:agent\ndisk:x:6:other,agent\nagentx:x:9:agentx\nbad\n";

TEST(Users, AreFoundByNameWithTheirGroups) {
  User user = *find_user("agent", kPasswd, kGroup);
  EXPECT_EQ(user.uid, 1000U);
  EXPECT_EQ(user.gid, 1001U);
  EXPECT_EQ(user.home, "/home/agent");
  EXPECT_EQ(user.shell, "/bin/zsh");
  EXPECT_EQ(user.groups, (std::vector<gid_t>{1001, 6}));
  EXPECT_EQ(find_user("last", kPasswd, kGroup)->gid, 6U);
  EXPECT_EQ(find_user("", kPasswd, kGroup)->shell, "/bin/bash");
}

TEST(Users, ANumberIsAUserIdWithOrWithoutAnEntry) {
  EXPECT_EQ(find_user("1000", kPasswd, kGroup)->name, "agent");
  User unknown = *find_user("1234", kPasswd, kGroup);
  EXPECT_EQ(unknown.uid, 1234U);
  EXPECT_EQ(unknown.gid, 1234U);
  EXPECT_EQ(unknown.home, "/");
  EXPECT_TRUE(unknown.groups.empty());
}

TEST(Users, UnknownOnesAreRefusedAndNotTakenForRoot) {
  for (std::string_view name : {"nobody", "-1", "4294967295", "99999999999", "0x0", "agent ", "agent:x"}) {
    auto user = find_user(name, kPasswd, kGroup);
    ASSERT_FALSE(user.ok()) << name;
    EXPECT_EQ(user.error().reason, "guest.no_user");
    EXPECT_EQ(user.error().field, "user");
  }
}

TEST(Users, ADiskWithoutPasswdStillHasRoot) {
  EXPECT_EQ(find_user("root", "", "")->home, "/root");
  EXPECT_FALSE(find_user("agent", "", "").ok());
}

TEST(Environment, DefaultsComeFromTheUserAndTheRequestWins) {
  User user{1000, 1000, {}, "agent", "/home/agent", ""};
  auto environment = make_environment(user, "xterm", {{"LANG", "C"}, {"A", "1"}, {"A", "2"}});
  EXPECT_EQ(environment_value(environment, "HOME"), "/home/agent");
  EXPECT_EQ(environment_value(environment, "SHELL"), "/bin/sh");
  EXPECT_EQ(environment_value(environment, "TERM"), "xterm");
  EXPECT_EQ(environment_value(environment, "LANG"), "C");
  EXPECT_EQ(environment_value(environment, "A"), "2");
  EXPECT_EQ(environment_value(environment, "PATH").find("sbin"), std::string_view::npos);
  EXPECT_EQ(environment_value(environment, "PAT"), "");
  EXPECT_EQ(std::count_if(environment.begin(), environment.end(),
                          [](const auto& var) { return var.substr(0, 2) == "A="; }),
            1);
}

TEST(Environment, MalformedVariablesAreRefused) {
  EXPECT_TRUE(check_environment({{"A", ""}, {"B", "x=y"}}).ok());
  EXPECT_FALSE(check_environment({{"", "x"}}).ok());
  EXPECT_FALSE(check_environment({{"A=B", "x"}}).ok());
  EXPECT_FALSE(check_environment({{std::string("A\0", 2), "x"}}).ok());
  EXPECT_FALSE(check_environment({{"A", std::string("\0", 1)}}).ok());
}

TEST(Environment, ProgramsAreLookedForInPathUnlessTheyHaveASlash) {
  EXPECT_EQ(program_candidates("ls", "/bin:/usr/bin"), (std::vector<std::string>{"/bin/ls", "/usr/bin/ls"}));
  EXPECT_EQ(program_candidates("./ls", "/bin"), (std::vector<std::string>{"./ls"}));
  EXPECT_EQ(program_candidates("ls", ":/bin:"), (std::vector<std::string>{"./ls", "/bin/ls", "./ls"}));
}

TEST(CommandLimits, AlwaysLeaveTheDaemonItsReserve) {
  for (std::uint64_t memory : {64 * kMiB, 256 * kMiB, 512 * kMiB, 4 * kGiB, 256 * kGiB}) {
    CommandLimits limits = command_limits(memory, 3800);
    EXPECT_LE(limits.all_memory_bytes + 24 * kMiB, memory);
    EXPECT_LT(limits.one_memory_bytes, limits.all_memory_bytes);
    EXPECT_GE(limits.one_memory_bytes * 4, memory) << "a command must be able to use most of the machine";
  }
  CommandLimits limits = command_limits(512 * kMiB, 3800);
  EXPECT_LE(limits.all_processes + 256, 3800U);
  EXPECT_LT(limits.one_processes, limits.all_processes);
  EXPECT_GT(limits.one_processes, 2500U);
}

}  // namespace
}  // namespace space::guest
