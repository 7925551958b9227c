// SPDX-License-Identifier: Apache-2.0
// The daemon as PID 1 of a real guest.
#include <gtest/gtest.h>
#include <signal.h>

#include "guest/testing/host_side.h"
#include "guest/testing/machine.h"

namespace space::guest::testing {
namespace {

struct MachineTest : ::testing::Test {
  void SetUp() override {
    if (std::string why = cannot_boot(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(MachineTest, BootsServesAndShutsDown) {
  Machine machine({.kernel_arguments = "space.hostname=box7", .disk_bytes = 256u << 20});
  HostSide host(machine.connect());
  auto& greeting = host.call(guestapi::HelloT{});
  ASSERT_EQ(greeting.reason(), "ok");
  const auto* hello = greeting.message<guestapi::HelloReplyT>();
  RecordProperty("kernel_boot_us", std::to_string(hello->kernel_boot_us));
  RecordProperty("ready_us", std::to_string(hello->ready_us));
  std::printf("kernel %lu us, ready after %lu us\n", hello->kernel_boot_us,
              hello->ready_us - hello->kernel_boot_us);

  EXPECT_EQ(host.call(exec("c1", {"hostname"})).data[1], "box7\n");
  EXPECT_EQ(
      host.call(shell("c2", "cat /proc/1/comm; cat /proc/1/oom_score_adj; cat /proc/self/oom_score_adj"))
          .data[1],
      "init\n-1000\n0\n");
  // The disk's file system has grown to the disk.
  EXPECT_GT(host.call(guestapi::GetMetricsT{}).message<guestapi::MetricsT>()->disk_total, 200u << 20);
  EXPECT_EQ(host.call(shell("c3", "cat /proc/self/cgroup")).data[1].substr(0, 12), "0::/commands");
  EXPECT_NE(host.call(shell("c4", "ifconfig lo")).data[1].find("UP LOOPBACK RUNNING"), std::string::npos);
  EXPECT_EQ(host.call(shell("c5",
                            "ls -A /root-disk /modules /init 2>/dev/null; echo x > /dev/null; ls /dev/fd/0 "
                            "/dev/pts/ptmx /dev/shm -d"))
                .data[1],
            "/dev/fd/0\n/dev/pts/ptmx\n/dev/shm\n");
  auto request = shell("c6", "id -u; id -G; pwd");
  request.user = "agent";
  EXPECT_EQ(host.call(std::move(request)).data[1], "1000\n1000 6\n/tmp\n");

  guestapi::WriteFileT write;
  write.path = "/root/f";
  auto stream = host.open(std::move(write));
  host.send_all(stream, "content");
  host.end(stream);
  ASSERT_TRUE(host.until([&] { return host[stream].over(); }));
  EXPECT_EQ(host[stream].reason(), "ok");
  EXPECT_EQ(host.call(shell("c7", "cat /root/f; ls -A /root")).data[1], "contentf\n");

  auto sleeping = host.open(exec("c8", {"sleep", "1000"}));
  EXPECT_EQ(host.call(guestapi::ShutdownT{}).reason(), "ok");
  ASSERT_TRUE(host.until([&] { return host[sleeping].over(); }));
  EXPECT_TRUE(machine.wait_for_end());
  EXPECT_EQ(host[sleeping].message<guestapi::ExitedT>()->signal, SIGKILL);
}

TEST_F(MachineTest, SurvivesAForkBombAMemoryHogAndAFullDisk) {
  Machine machine({});
  HostSide host(machine.connect());
  auto bomb = shell("bomb", "f() { f | f & }; f; sleep 1000");
  bomb.timeout_ms = 5000;
  auto stream = host.open(std::move(bomb));
  ASSERT_TRUE(host.until([&] { return host[stream].message<guestapi::StartedT>() != nullptr; }));
  EXPECT_EQ(host.call(guestapi::HelloT{}).reason(), "ok");
  EXPECT_EQ(host.call(shell("beside", "echo still here")).data[1], "still here\n");
  ASSERT_TRUE(host.until([&] { return host[stream].over(); }));
  EXPECT_TRUE(host[stream].message<guestapi::ExitedT>()->timed_out);
  // What was killed takes a moment to go.
  int round = 0;
  std::string left;
  while (left != "0\n" && round < 100) {
    left = host.call(shell("left" + std::to_string(round++), "ps | grep -c '[f] | f'")).data[1];
  }
  EXPECT_EQ(left, "0\n");

  auto& hog = host.call(exec("hog", {"/bin/busybox", "tail", "-c", "185000000", "/dev/zero"}));
  ASSERT_NE(hog.message<guestapi::ExitedT>(), nullptr);
  EXPECT_TRUE(hog.message<guestapi::ExitedT>()->out_of_memory);
  EXPECT_EQ(hog.message<guestapi::ExitedT>()->signal, SIGKILL);

  auto& full = host.call(shell("full", "dd if=/dev/zero of=/root/big bs=1M; echo $?"));
  EXPECT_NE(full.data[2].find("No space left"), std::string::npos);
  guestapi::WriteFileT write;
  write.path = "/root/more";
  auto upload = host.open(std::move(write));
  host.send_all(upload, std::string(1 << 20, 'x'));
  host.end(upload);
  ASSERT_TRUE(host.until([&] { return host[upload].over(); }));
  EXPECT_EQ(host[upload].reason(), "guest.disk_full");
  EXPECT_EQ(host.call(guestapi::HelloT{}).reason(), "ok");
}

TEST_F(MachineTest, AHostThatGoesAndComesBackFindsItsCommand) {
  Machine machine({});
  {
    HostSide host(machine.connect(), 1);
    auto request = shell("c1", "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.05; done");
    auto stream = host.open(std::move(request));
    ASSERT_TRUE(host.until([&] { return host[stream].data[1].find("line 2\n") != std::string::npos; }));
  }
  HostSide host(machine.connect(), 2);
  guestapi::AttachT attach;
  attach.command_id = "c1";
  auto stream = host.open(std::move(attach));
  ASSERT_TRUE(host.until([&] { return host[stream].data[1].find("line 20\n") != std::string::npos; }));
  EXPECT_EQ(host[stream].data[1].substr(0, 14), "line 1\nline 2\n");
}

TEST_F(MachineTest, AnotherInitBecomesPidOneAndSparesTheDaemon) {
  Machine machine({.kernel_arguments = "space.init=systemd"});
  HostSide host(machine.connect());
  EXPECT_EQ(host.call(shell("c1", "head -c 18 /proc/1/cmdline | tail -c 10; echo; cat /proc/self/cgroup"))
                .data[1]
                .substr(0, 23),
            "/sbin/init\n0::/commands");
  // The daemon's name, which systemd spares: the parent of a command.
  EXPECT_EQ(host.call(shell("c2", "head -c 1 /proc/$PPID/cmdline; cat /proc/$PPID/oom_score_adj")).data[1],
            "@-1000\n");
  // An orphan is collected by the daemon: nothing of it is left.
  host.call(shell("c3", "(sleep 0 & ) ; true"));
  EXPECT_EQ(host.call(shell("c4", "ps | grep -c '[Z]  *.sleep'")).data[1], "0\n");
  EXPECT_EQ(host.call(guestapi::ShutdownT{}).reason(), "ok");
  EXPECT_TRUE(machine.wait_for_end());
}

TEST_F(MachineTest, ABrokenRootDiskEndsTheMachineWithAReason) {
  Machine machine({.kernel_arguments = "space.root=/dev/ram7"});
  EXPECT_TRUE(machine.wait_for_end());
  EXPECT_NE(machine.console().find("guest.no_root_disk"), std::string::npos);
}

}  // namespace
}  // namespace space::guest::testing
