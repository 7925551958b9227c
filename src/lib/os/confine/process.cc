// SPDX-License-Identifier: Apache-2.0
#include "lib/os/confine/process.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace space::os::confine {
namespace {
constexpr const char* kReason = "confine.process";
}

Result<void> forbid_new_privileges() {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno_error(errno, kReason, "no_new_privs");
  return {};
}

Result<void> forbid_core_dumps() {
  struct rlimit none{0, 0};
  if (::setrlimit(RLIMIT_CORE, &none) != 0) return errno_error(errno, kReason, "limit of core files");
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return errno_error(errno, kReason, "dumpable");
  return {};
}

Result<void> limit_resources(std::span<const ResourceLimit> limits) {
  for (const auto& limit : limits) {
    struct rlimit wanted{limit.value, limit.value};
    if (::setrlimit(static_cast<__rlimit_resource_t>(limit.resource), &wanted) == 0) continue;
    struct rlimit now{};
    if (errno != EPERM || ::getrlimit(static_cast<__rlimit_resource_t>(limit.resource), &now) != 0) {
      return errno_error(errno, kReason, "resource limit " + std::to_string(limit.resource));
    }
    wanted.rlim_max = std::min(limit.value, now.rlim_max);
    wanted.rlim_cur = wanted.rlim_max;
    if (::setrlimit(static_cast<__rlimit_resource_t>(limit.resource), &wanted) != 0) {
      return errno_error(errno, kReason, "resource limit " + std::to_string(limit.resource));
    }
  }
  return {};
}

Result<void> close_descriptors_except(std::span<const int> keep) {
  // Goes from gap to gap between the kept ones without sorting a copy, so that nothing is allocated.
  unsigned from = 0;
  for (;;) {
    unsigned next = UINT_MAX;
    for (int fd : keep) {
      if (fd >= 0 && static_cast<unsigned>(fd) >= from) next = std::min(next, static_cast<unsigned>(fd));
    }
    if (next == from) {
      ++from;
      continue;
    }
    unsigned last = next == UINT_MAX ? UINT_MAX : next - 1;
    if (::syscall(SYS_close_range, from, last, 0) != 0) return errno_error(errno, kReason, "close_range");
    if (next == UINT_MAX) return {};
    from = next + 1;
  }
}

Result<void> die_with_parent(int signal, pid_t parent) {
  if (::prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0) != 0)
    return errno_error(errno, kReason, "parent-death signal");
  if (parent != 0 && ::getppid() != parent) {
    return make_error(Code::kAborted, kReason, "the parent has already ended");
  }
  return {};
}

}  // namespace space::os::confine
