// SPDX-License-Identifier: Apache-2.0
#pragma once
// Everything `space-node jail` needs to know to turn itself into a confined VMM. Made by a backend, carried
// as JSON over a descriptor from node to the jail process: both are this program, so it is believed. Value
// type.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace space::node::slot {

// A single file or directory of the host that appears in the jail. `target` is absolute in the jail and
// exists in its root. Never with set-user-id, devices or executables.
struct Bind {
  enum class Access : std::uint8_t { kReadOnly, kReadWrite };
  std::string source;
  std::string target;
  Access access = Access::kReadOnly;
  bool operator==(const Bind&) const = default;
};

struct Limit {
  int resource = 0;  // RLIMIT_*
  std::uint64_t value = 0;
  bool operator==(const Limit&) const = default;
};

// What becomes "/".
enum class RootKind : std::uint8_t {
  kReadOnly,    // `root`, read-only
  kDisposable,  // the host's own root under an overlay that lies in `scratch`: isolation for tests, not
                // security
};

// Which seccomp filter (syscalls.h) is put on before execve.
enum class SyscallProfile : std::uint8_t { kQemu, kNone };

struct JailPlan {
  RootKind root_kind = RootKind::kReadOnly;
  std::string root;
  std::string scratch;  // kDisposable: a directory on the host
  std::vector<Bind> binds;
  std::vector<std::string> devices;  // of "null", "zero", "urandom", "kvm"; made in a /dev of its own
  uid_t uid = 0;                     // 0 only with kDisposable
  gid_t gid = 0;
  std::string hostname = "sandbox";  // of the uts namespace
  std::vector<Limit> limits;
  SyscallProfile syscalls = SyscallProfile::kQemu;
  std::vector<std::string> argv;  // argv[0] is the program's path in the jail
  std::vector<std::string> environment;
  bool operator==(const JailPlan&) const = default;
};

std::string to_json(const JailPlan& plan);
// Errors: internal node.jail_plan.
Result<JailPlan> parse_jail_plan(std::string_view text);

}  // namespace space::node::slot
