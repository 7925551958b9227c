// SPDX-License-Identifier: Apache-2.0
#include "link/confinement.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "lib/os/confine/capabilities.h"
#include "lib/os/confine/process.h"
#include "lib/os/confine/syscall_sets.h"
#include "lib/os/fd.h"

namespace space::link {
namespace {

namespace confine_lib = os::confine;

// Three sockets a sandbox, twice while one is replaced, and some for connections.
constexpr confine_lib::ResourceLimit kLimits[] = {
    {RLIMIT_NOFILE, 8192, "sockets of 1024 sandboxes, and of those that are being replaced"},
};

// UBSan asks the kernel through a pipe whether memory can be read, and takes a refusal for a broken object.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define SPACE_LINK_SANITIZED 1
constexpr confine_lib::SyscallRule kSanitizers[] = {
    {"pipe2", "the sanitizers' check whether memory can be read; not in other builds", {}},
};
#endif
#endif

Error not_confined(const char* what) {
  return make_error(Code::kInternal, "link.not_confined", what);
}

// Was the call refused, and by the filter?
bool refused(int result) {
  if (result >= 0) ::close(result);
  return result < 0 && errno == EPERM;
}

}  // namespace

Result<confine_lib::SyscallPolicy> serving_policy() {
  confine_lib::SyscallPolicyBuilder builder(confine_lib::Refusal::kPermissionError);
  builder.allow(confine_lib::kProcessBasics)
      .allow(confine_lib::kEventLoop)
      .allow(confine_lib::kOpenSockets)
      .refuse(confine_lib::kEscapes, confine_lib::Refusal::kKillProcess);
#ifdef SPACE_LINK_SANITIZED
  builder.allow(kSanitizers);
#endif
  return builder.build();
}

Result<void> give_up_privileges(std::span<const int> keep) {
  std::vector<int> all{0, 1, 2};
  all.insert(all.end(), keep.begin(), keep.end());
  SPACE_CHECK_OK(confine_lib::close_descriptors_except(all));
  SPACE_CHECK_OK(confine_lib::limit_resources(kLimits));
  SPACE_CHECK_OK(confine_lib::forbid_new_privileges());
  SPACE_CHECK_OK(confine_lib::keep_only_capabilities({}));
  SPACE_CHECK_OK(confine_lib::forbid_core_dumps());
  // A peer that closes its socket is an error of a call, not of the process.
  if (::signal(SIGPIPE, SIG_IGN) == SIG_ERR)
    return errno_error(errno, "link.not_confined", "ignoring SIGPIPE");
  return {};
}

Result<void> confine() {
  SPACE_TRY(auto sets, confine_lib::capability_sets());
  if (sets.effective != 0 || sets.permitted != 0 || sets.ambient != 0)
    return not_confined("the process still has capabilities");
  SPACE_TRY(confine_lib::SyscallPolicy policy, serving_policy());
  SPACE_CHECK_OK(policy.apply());
  if (!refused(::open("/", O_RDONLY | O_CLOEXEC))) return not_confined("the process can still open files");
  if (!refused(::socket(AF_UNIX, SOCK_STREAM, 0)))
    return not_confined("the process can still make local sockets");
  if (!refused(::socket(AF_INET, SOCK_STREAM, 0)))
    return not_confined("the process can still make network sockets");
  return {};
}

}  // namespace space::link
