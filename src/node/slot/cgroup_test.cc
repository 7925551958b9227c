// SPDX-License-Identifier: Apache-2.0
// The v1 form is tried on this machine's hierarchies, the v2 form on a directory that looks like one.
#include "node/slot/cgroup.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/os/file.h"
#include "lib/os/random.h"
#include "node/process/child.h"
#include "node/slot/internal/cgroup_files.h"

namespace space::node::slot {
namespace {

using namespace std::chrono_literals;

constexpr const char* kHybrid =
    "25 30 0:23 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "26 25 0:24 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "27 25 0:25 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "28 25 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
    "29 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(CgroupMountsText, NamesHierarchiesByController) {
  auto mounts = parse_cgroup_mounts(kHybrid);
  EXPECT_EQ(mounts.v1.at("cpu"), "/sys/fs/cgroup/cpu,cpuacct");
  EXPECT_EQ(mounts.v1.at("memory"), "/sys/fs/cgroup/memory");
  EXPECT_EQ(mounts.v2, "/sys/fs/cgroup/unified");
}

TEST(CgroupMountsText, LinesOfAnotherFormAreSkipped) {
  EXPECT_EQ(parse_cgroup_mounts("garbage\n\n - \n1 2 3 - cgroup\n"), CgroupMounts());
}

TEST(CgroupKindChoice, TakesTheFormThatHasTheControllers) {
  auto hybrid = parse_cgroup_mounts(kHybrid);
  EXPECT_EQ(usable_kind(hybrid, "hugetlb\n"), CgroupKind::kV1);
  EXPECT_EQ(usable_kind(hybrid, "cpuset cpu io memory pids\n"), CgroupKind::kV2);
  EXPECT_EQ(usable_kind(CgroupMounts{{}, "/sys/fs/cgroup"}, "cpu memory"), CgroupKind::kNone);
}

struct CgroupTree : ::testing::Test {
  std::string root;
  SandboxId sandbox{"sandbox0000000000000"};
  void SetUp() override {
    char pattern[] = "/tmp/space-cgroup-XXXXXX";
    root = ::mkdtemp(pattern);
    file("/cgroup.subtree_control");
    ::mkdir((root + "/space-n").c_str(), 0755);
    file("/space-n/cgroup.subtree_control");
  }
  void TearDown() override { os::remove_tree(root).ignore("test clean-up"); }
  // Files that the kernel would make.
  void file(const std::string& name, const std::string& content = "") const {
    os::write_file_atomic(root + name, content, os::Durability::kBuffered).value();
  }
  void group_files() const {
    ::mkdir((root + "/space-n/" + sandbox.str()).c_str(), 0755);
    for (const char* name : {"memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.weight",
                             "cpu.max", "cgroup.procs", "cgroup.kill", "memory.events", "memory.current"}) {
      file("/space-n/" + sandbox.str() + "/" + name);
    }
  }
  [[nodiscard]] std::string content(const std::string& name) const {
    return *os::read_file(root + "/space-n/" + name);
  }
  [[nodiscard]] CgroupLayout layout() const { return {CgroupKind::kV2, {{}, root}}; }
};

TEST_F(CgroupTree, V2TurnsItsControllersOn) {
  ASSERT_TRUE(Cgroups::open(layout(), "n").ok());
  EXPECT_EQ(*os::read_file(root + "/cgroup.subtree_control"), "+memory +cpu +pids");
  EXPECT_EQ(content("cgroup.subtree_control"), "+memory +cpu +pids");
}

TEST_F(CgroupTree, V2WritesEveryLimit) {
  group_files();
  auto groups = *Cgroups::open(layout(), "n");
  ASSERT_TRUE(groups->create(sandbox, {512 << 20, 77, 150}).ok());
  EXPECT_EQ(content(sandbox.str() + "/memory.max"), "536870912");
  EXPECT_EQ(content(sandbox.str() + "/memory.swap.max"), "0");
  EXPECT_EQ(content(sandbox.str() + "/memory.oom.group"), "1");
  EXPECT_EQ(content(sandbox.str() + "/pids.max"), "77");
  EXPECT_EQ(content(sandbox.str() + "/cpu.max"), "150000 100000");
  EXPECT_EQ(content(sandbox.str() + "/cpu.weight"), "150");
}

TEST_F(CgroupTree, V2KillsTheWholeGroupAtOnce) {
  group_files();
  auto groups = *Cgroups::open(layout(), "n");
  file("/space-n/" + sandbox.str() + "/cgroup.procs", "999999999\n");
  // The directory doesn't empty itself as the kernel's would.
  EXPECT_EQ(groups->kill_all(sandbox, 20ms).error().reason, "node.cgroup_busy");
  EXPECT_EQ(content(sandbox.str() + "/cgroup.kill"), "1");
}

TEST_F(CgroupTree, V2SeesThatMemoryRanOut) {
  group_files();
  auto groups = *Cgroups::open(layout(), "n");
  file("/space-n/" + sandbox.str() + "/memory.events", "low 0\noom 2\noom_kill 0\n");
  EXPECT_FALSE(groups->out_of_memory(sandbox));
  file("/space-n/" + sandbox.str() + "/memory.events", "low 0\noom 2\noom_kill 1\n");
  EXPECT_TRUE(groups->out_of_memory(sandbox));
}

TEST_F(CgroupTree, ListsGroupsAndNotFiles) {
  group_files();
  auto groups = *Cgroups::open(layout(), "n");
  EXPECT_EQ(*groups->list(), std::vector<std::string>{sandbox.str()});
}

TEST_F(CgroupTree, WhatIsNotThereIsGoneAlready) {
  auto groups = *Cgroups::open(layout(), "n");
  EXPECT_TRUE(groups->kill_all(sandbox, 1s).ok());
  EXPECT_TRUE(groups->remove(sandbox).ok());
}

TEST(CgroupsWithout, UsableHierarchiesAreRefused) {
  EXPECT_EQ(Cgroups::open({}, "n").error().reason, "node.no_cgroups");
}

// ---- this machine ----

// Goes on when the process is in the last of the groups that it is put into.
constexpr const char* kOnceInTheGroup =
    "until grep -qE '(pids|^0:).*sandbox0000000000000' /proc/self/cgroup; do :; done; ";

struct RealCgroups : ::testing::Test {
  std::unique_ptr<Cgroups> groups;
  CgroupLayout layout;
  SandboxId sandbox{"sandbox0000000000000"};
  void SetUp() override {
    layout = *find_cgroup_layout();
    if (::geteuid() != 0 || layout.kind == CgroupKind::kNone) GTEST_SKIP() << "needs root and control groups";
    os::SystemRandom random;
    groups = *Cgroups::open(layout, random.id_text());
  }
  void TearDown() override {
    if (!groups) return;
    groups->kill_all(sandbox, 5s).ignore("test clean-up");
    groups->remove(sandbox).ignore("test clean-up");
    groups->close();
  }
};

TEST_F(RealCgroups, KillWhateverIsInThem) {
  ASSERT_TRUE(groups->create(sandbox, {64 << 20, 20, 100}).ok());
  auto child =
      process::start_child({"sh", "-c", std::string(kOnceInTheGroup) + "sleep 1000 & sleep 1000 & wait"});
  ASSERT_TRUE(child.ok());
  ASSERT_TRUE(groups->add(sandbox, child->pid()).ok());
  ASSERT_TRUE(groups->kill_all(sandbox, 10s).ok());
  EXPECT_EQ(child->wait(10s)->signal, SIGKILL);
  EXPECT_TRUE(groups->remove(sandbox).ok());
  EXPECT_TRUE(groups->list()->empty());
}

TEST_F(RealCgroups, LimitTasks) {
  ASSERT_TRUE(groups->create(sandbox, {64 << 20, 3, 100}).ok());
  auto child = process::start_child(
      {"sh", "-c",
       std::string(kOnceInTheGroup) + "sleep 1000 & sleep 1000 & sleep 1000 & sleep 1000 & exit 0"});
  ASSERT_TRUE(child.ok());
  ASSERT_TRUE(groups->add(sandbox, child->pid()).ok());
  EXPECT_NE(child->wait(30s)->exit_code, 0);
}

TEST_F(RealCgroups, CreatingAgainChangesTheLimits) {
  ASSERT_TRUE(groups->create(sandbox, {64 << 20, 20, 100}).ok());
  EXPECT_TRUE(groups->create(sandbox, {128 << 20, 30, 200}).ok());
}

}  // namespace
}  // namespace space::node::slot
