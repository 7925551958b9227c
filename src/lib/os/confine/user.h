// SPDX-License-Identifier: Apache-2.0
#pragma once
// Changing user for good. Posture: internal. Errors: confine.user.

#include <sys/types.h>

#include <vector>

#include "lib/base/result.h"

namespace space::os::confine {

struct User {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // supplementary; empty: none at all
};

// Sets real, effective and saved ids and the groups, and makes sure that there is no way back. Needs
// CAP_SETUID and CAP_SETGID. Changing from root to another uid drops the permitted and effective
// capabilities; it also clears the parent-death signal, so set that afterwards (process.h). Precondition:
// user.uid is not 0.
Result<void> become_user(const User& user);

}  // namespace space::os::confine
