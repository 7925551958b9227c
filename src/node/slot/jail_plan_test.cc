// SPDX-License-Identifier: Apache-2.0
#include "node/slot/jail_plan.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "node/slot/jail_root.h"
#include "node/slot/syscalls.h"

namespace space::node::slot {
namespace {

JailPlan sample() {
  JailPlan plan;
  plan.root = "/data/node/jailroot-1";
  plan.binds = {{"/a \"quoted\"", "/slot", Bind::Access::kReadWrite},
                {"/b", "/template/disk.img", Bind::Access::kReadOnly}};
  plan.devices = {"null"};
  plan.uid = plan.gid = 700'016;
  plan.limits = {{7, 256}, {1, ~std::uint64_t{0}}};
  plan.argv = {"/usr/bin/vmm", "--flag", ""};
  plan.environment = {"A=1"};
  return plan;
}

TEST(JailPlan, RoundTrips) {
  auto parsed = parse_jail_plan(to_json(sample()));
  ASSERT_TRUE(parsed.ok()) << parsed.error().describe();
  EXPECT_EQ(*parsed, sample());
}

TEST(JailPlan, ThatWouldRunAVmmAsRootIsRefused) {
  JailPlan plan = sample();
  plan.uid = 0;
  EXPECT_EQ(parse_jail_plan(to_json(plan)).error().reason, "node.jail_plan");
}

TEST(JailPlan, ThatIsIncompleteIsRefused) {
  for (const char* text : {"", "{}", "[]", "{\"root_kind\":0}", "nonsense"})
    EXPECT_FALSE(parse_jail_plan(text).ok()) << text;
}

TEST(LibraryList, HasAbsolutePathsOnly) {
  EXPECT_EQ(parse_library_list("\tlinux-vdso.so.1 (0x00007ffc)\n"
                               "\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f)\n"
                               "\tlibgone.so => not found\n"
                               "\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n"),
            (std::vector<std::string>{"/lib/x86_64-linux-gnu/libz.so.1", "/lib64/ld-linux-x86-64.so.2"}));
}

TEST(QemuCalls, MakeAFilter) {
  auto policy = policy_for(SyscallProfile::kQemu);
  ASSERT_TRUE(policy.ok()) << policy.error().describe();
  EXPECT_TRUE(policy->has_value());
  EXPECT_FALSE(policy_for(SyscallProfile::kNone)->has_value());
}

TEST(QemuCalls, NeverAllowTheseWithoutATestOfTheArgument) {
  std::set<std::string> open;
  for (const auto& rule : kQemuCalls) {
    if (!rule.test) open.insert(rule.name);
  }
  for (const char* name :
       {"clone",  "ioctl", "prctl",   "prlimit64", "madvise", "socket", "connect", "bind",
        "kill",   "fork",  "vfork",   "ptrace",    "mount",   "setuid", "setns",   "unshare",
        "rename", "link",  "symlink", "mkdir",     "chmod",   "chown"}) {
    EXPECT_FALSE(open.contains(name)) << name;
  }
}

}  // namespace
}  // namespace space::node::slot
