// SPDX-License-Identifier: Apache-2.0
#include "node/slot/jail.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <numeric>

#include "lib/os/confine/capabilities.h"
#include "lib/os/confine/process.h"
#include "lib/os/confine/syscall_policy.h"
#include "lib/os/confine/user.h"
#include "lib/os/file.h"
#include "node/slot/internal/jail_fds.h"
#include "node/slot/internal/jail_mounts.h"
#include "node/slot/jail_plan.h"
#include "node/slot/jail_process.h"
#include "node/slot/syscalls.h"

namespace space::node::slot {
namespace {

namespace confine = os::confine;

constexpr std::size_t kMaxPlanBytes = 1u << 20;

Error jail_error(const char* what) {
  return errno_error(errno, "node.jail", what);
}

// While CAP_SETPCAP is still there; the user is changed afterwards, which empties the other sets.
Result<void> empty_bounding_set() {
  for (int capability = 0; ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability) {
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) return jail_error("empty the bounding set");
  }
  return {};
}

Result<void> limit(const JailPlan& plan) {
  std::vector<confine::ResourceLimit> limits;
  for (const auto& entry : plan.limits)
    limits.push_back({entry.resource, entry.value, "the plan of the backend"});
  return confine::limit_resources(limits);
}

Result<void> confine_vmm(const JailPlan& plan) {
  // The policy is compiled before the user changes: it needs memory and a memfd, nothing that is taken away
  // later.
  SPACE_TRY(auto policy, policy_for(plan.syscalls));
  SPACE_CHECK_OK(empty_bounding_set());
  SPACE_CHECK_OK(confine::become_user({plan.uid, plan.gid, {}}));
  SPACE_CHECK_OK(confine::forbid_new_privileges());
  SPACE_CHECK_OK(confine::keep_only_capabilities({}));
  SPACE_CHECK_OK(confine::forbid_core_dumps());
  if (policy) SPACE_CHECK_OK(policy->apply());
  return {};
}

Result<void> execute(const JailPlan& plan) {
  std::vector<char*> argv;
  for (const auto& argument : plan.argv)
    argv.push_back(const_cast<char*>(argument.c_str()));  // SAFETY: exec only reads
  argv.push_back(nullptr);
  std::vector<char*> environment;
  for (const auto& variable : plan.environment)
    environment.push_back(const_cast<char*>(variable.c_str()));  // SAFETY: as above
  environment.push_back(nullptr);
  ::execve(argv[0], argv.data(), environment.data());
  return errno_error(errno, "node.jail", "execute " + plan.argv[0]);
}

Result<void> enter_jail(const JailPlan& plan) {
  SPACE_CHECK_OK(internal::enter_root(plan));
  if (::sethostname(plan.hostname.data(), plan.hostname.size()) != 0) return jail_error("name the host");
  if (::setsid() < 0 && errno != EPERM) return jail_error("start a session");
  ::umask(0077);
  // Huge pages would inflate what a snapshot has to copy, and discarded ones are not always reported as
  // written.
  if (::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) return jail_error("turn huge pages off");
  SPACE_CHECK_OK(limit(plan));
  std::vector<int> keep(kFirstInheritedFd + kMaxInheritedFds);
  std::iota(keep.begin(), keep.end(), 0);
  SPACE_CHECK_OK(confine::close_descriptors_except(keep));
  ::close(internal::kPlanFd);
  ::fcntl(internal::kControlFd, F_SETFD, FD_CLOEXEC);
  if (plan.uid != 0) SPACE_CHECK_OK(confine_vmm(plan));
  return execute(plan);
}

Result<JailPlan> read_plan() {
  SPACE_TRY(std::string text,
            os::read_file("/proc/self/fd/" + std::to_string(internal::kPlanFd), kMaxPlanBytes));
  return parse_jail_plan(text);
}

}  // namespace

int jail_main() {
  char word = 0;
  ssize_t got;
  do {
    got = ::read(internal::kControlFd, &word, 1);
  } while (got < 0 && errno == EINTR);
  // End of stream: whoever started us is gone, and nothing exists yet that anybody would miss.
  if (got != 1) return internal::kJailFailed;
  auto plan = read_plan();
  Result<void> outcome = plan.ok() ? enter_jail(*plan) : Result<void>(plan.error());
  std::string said = outcome.error().describe();
  [[maybe_unused]] ssize_t ignored = ::write(internal::kControlFd, said.data(), said.size());
  return internal::kJailFailed;
}

}  // namespace space::node::slot
