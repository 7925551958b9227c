// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "lib/os/confine/capabilities.h"
#include "lib/os/confine/process.h"
#include "lib/os/confine/syscall_policy.h"
#include "lib/os/confine/syscall_sets.h"
#include "lib/os/confine/user.h"

namespace space::os::confine {
namespace {

// Runs `body` in a child, since nothing here can be undone. Its value (0..100) is the child's exit code; a
// child that a signal ended gives 1000 + signal.
int in_child(const std::function<int()>& body) {
  pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

Result<SyscallPolicy> serving_policy() {
  return SyscallPolicyBuilder(Refusal::kPermissionError)
      .allow(kProcessBasics)
      .allow(kThreads)
      .allow(kEventLoop)
      .allow(kOpenSockets)
      .refuse(kEscapes, Refusal::kKillProcess)
      .build();
}

TEST(SyscallPolicy, RefusesWhatNoListNames) {
  auto policy = serving_policy();
  ASSERT_TRUE(policy.ok()) << policy.error().describe();
  EXPECT_EQ(in_child([&] {
              if (::open("/dev/null", O_RDONLY) < 0) return 50;  // the control: it works before
              if (!policy->apply().ok()) return 51;
              if (::open("/dev/null", O_RDONLY) >= 0 || errno != EPERM) return 1;
              if (::socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || errno != EPERM) return 2;
              if (::socket(AF_INET, SOCK_STREAM, 0) >= 0 || errno != EPERM) return 3;
              return ::write(1, "", 0) == 0 && ::getpid() > 0 ? 0 : 4;
            }),
            0);
}

TEST(SyscallPolicy, KillsForEscapes) {
  auto policy = serving_policy();
  ASSERT_TRUE(policy.ok());
  EXPECT_EQ(in_child([&] {
              policy->apply().ignore("the exit code tells");
              ::execl("/bin/true", "true", nullptr);
              return 1;
            }),
            1000 + SIGSYS);
  EXPECT_EQ(in_child([&] {
              policy->apply().ignore("the exit code tells");
              ::syscall(SYS_unshare, 0);
              return 1;
            }),
            1000 + SIGSYS);
}

TEST(SyscallPolicy, TestsArguments) {
  auto policy = serving_policy();
  ASSERT_TRUE(policy.ok());
  EXPECT_EQ(in_child([&] {
              if (!policy->apply().ok()) return 51;
              constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
              if (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, kFlags, -1, 0) == MAP_FAILED) return 1;
              if (::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, kFlags, -1, 0) != MAP_FAILED || errno != EPERM)
                return 2;
              return 0;
            }),
            0);
}

TEST(SyscallPolicy, IsCheckedWhenItIsBuilt) {
  constexpr SyscallRule kUnknown[] = {{"no_such_call", "a reason", {}}};
  constexpr SyscallRule kUnexplained[] = {{"read", "", {}}};
  constexpr SyscallRule kImpossible[] = {{"read", "a reason", ArgumentTest{0, 1, 2}}};
  constexpr SyscallRule kRead[] = {{"read", "a reason", {}}};
  EXPECT_FALSE(SyscallPolicyBuilder(Refusal::kKillProcess).allow(kUnknown).build().ok());
  EXPECT_FALSE(SyscallPolicyBuilder(Refusal::kKillProcess).allow(kUnexplained).build().ok());
  EXPECT_FALSE(SyscallPolicyBuilder(Refusal::kKillProcess).allow(kImpossible).build().ok());
  EXPECT_FALSE(SyscallPolicyBuilder(Refusal::kPermissionError)
                   .allow(kRead)
                   .refuse(kRead, Refusal::kKillProcess)
                   .build()
                   .ok());
  EXPECT_TRUE(SyscallPolicyBuilder(Refusal::kPermissionError).allow(kRead).build().ok());
}

TEST(Capabilities, KeepsTheListedAndNothingElse) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  EXPECT_EQ(in_child([] {
              constexpr KeptCapability kKept[] = {{CAP_KILL, "test"}};
              if (!keep_only_capabilities(kKept).ok()) return 1;
              auto sets = capability_sets();
              if (!sets.ok()) return 2;
              constexpr std::uint64_t kMask = std::uint64_t{1} << CAP_KILL;
              if (sets->effective != kMask || sets->permitted != kMask || sets->bounding != kMask) return 3;
              return sets->ambient == 0 && (sets->inheritable & ~kMask) == 0 ? 0 : 4;
            }),
            0);
}

TEST(Capabilities, WithoutSetpcapNoNewPrivilegesMustStandInForTheBoundingSet) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  EXPECT_EQ(in_child([] {
              if (!become_user({65534, 65534, {}}).ok()) return 1;
              if (keep_only_capabilities({}).ok()) return 2;
              if (!forbid_new_privileges().ok()) return 3;
              if (!keep_only_capabilities({}).ok()) return 4;
              auto sets = capability_sets();
              return sets.ok() && sets->effective == 0 && sets->permitted == 0 ? 0 : 5;
            }),
            0);
}

TEST(BecomeUser, IsFinal) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  EXPECT_EQ(in_child([] {
              if (!become_user({65534, 65534, {}}).ok()) return 1;
              if (::getuid() != 65534 || ::getegid() != 65534 || ::getgroups(0, nullptr) != 0) return 2;
              if (::setuid(0) == 0 || ::setgid(0) == 0) return 3;
              return ::access("/etc/shadow", R_OK) != 0 ? 0 : 4;
            }),
            0);
  EXPECT_FALSE(become_user({0, 0, {}}).ok());
}

TEST(Descriptors, OnlyTheNamedOnesStayOpen) {
  EXPECT_EQ(in_child([] {
              int low = ::open("/dev/null", O_RDONLY);
              int other = ::open("/dev/null", O_RDONLY);
              int high = ::fcntl(low, F_DUPFD, 500);
              const int keep[] = {high, 2, low};  // any order
              if (!close_descriptors_except(keep).ok()) return 1;
              auto open = [](int fd) { return ::fcntl(fd, F_GETFD) >= 0; };
              if (!open(2) || !open(low) || !open(high)) return 2;
              return !open(0) && !open(1) && !open(other) && !open(499) && !open(501) ? 0 : 3;
            }),
            0);
}

TEST(Process, LimitsAndDumpsAreSet) {
  EXPECT_EQ(in_child([] {
              constexpr ResourceLimit kLimits[] = {{RLIMIT_NOFILE, 77, "test"}};
              if (!limit_resources(kLimits).ok() || !forbid_core_dumps().ok()) return 1;
              struct rlimit now{};
              ::getrlimit(RLIMIT_NOFILE, &now);
              if (now.rlim_cur != 77 || now.rlim_max != 77) return 2;
              ::getrlimit(RLIMIT_CORE, &now);
              if (now.rlim_max != 0) return 3;
              return ::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 ? 0 : 4;
            }),
            0);
}

TEST(Process, NoticesAParentThatIsGone) {
  EXPECT_EQ(in_child([] {
              if (die_with_parent(SIGKILL, 1'000'000'000).ok()) return 1;
              return die_with_parent(SIGKILL, ::getppid()).ok() ? 0 : 2;
            }),
            0);
}

}  // namespace
}  // namespace space::os::confine
