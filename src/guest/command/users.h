// SPDX-License-Identifier: Apache-2.0
#pragma once
// Users of the guest, from /etc/passwd and /etc/group. Read by hand: a static program can't load the C
// library's name services, and the daemon wants no code of the root disk in itself. Posture: the files are
// the guest's.

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace space::guest {

struct User {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // supplementary, at most kMaxGroups
  std::string name;           // the number as text when it has no entry
  std::string home;
  std::string shell;
};
inline constexpr std::size_t kMaxGroups = 256;

// A user by name or decimal number; empty is root. A number without an entry is accepted, with the group of
// the same number, home / and no supplementary groups. Errors: guest.no_user. Pure.
Result<User> find_user(std::string_view wanted, std::string_view passwd, std::string_view group);
// The same with the guest's files. Blocking.
Result<User> find_user(std::string_view wanted);

}  // namespace space::guest
