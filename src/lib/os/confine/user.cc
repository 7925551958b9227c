// SPDX-License-Identifier: Apache-2.0
#include "lib/os/confine/user.h"

#include <grp.h>
#include <unistd.h>

#include <cerrno>

namespace space::os::confine {

Result<void> become_user(const User& user) {
  constexpr const char* kReason = "confine.user";
  if (user.uid == 0 || user.gid == 0)
    return make_error(Code::kInvalidArgument, kReason, "a confined process may not be root");
  if (::setgroups(user.groups.size(), user.groups.data()) != 0)
    return errno_error(errno, kReason, "setgroups");
  if (::setresgid(user.gid, user.gid, user.gid) != 0) return errno_error(errno, kReason, "setresgid");
  if (::setresuid(user.uid, user.uid, user.uid) != 0) return errno_error(errno, kReason, "setresuid");
  // A process that kept its capabilities could go back; that is a mistake of the caller.
  if (::setresuid(static_cast<uid_t>(-1), 0, static_cast<uid_t>(-1)) == 0) {
    return make_error(Code::kInternal, kReason, "the process can still become root");
  }
  uid_t real = 0;
  uid_t effective = 0;
  uid_t saved = 0;
  ::getresuid(&real, &effective, &saved);
  if (real != user.uid || effective != user.uid || saved != user.uid) {
    return make_error(Code::kInternal, kReason, "the user ids did not change");
  }
  return {};
}

}  // namespace space::os::confine
