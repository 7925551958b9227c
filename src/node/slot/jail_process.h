// SPDX-License-Identifier: Apache-2.0
#pragma once
// A process in namespaces of its own that has not started to be anything yet.
//
// start_jail() clones this program's jail mode into new mount, pid, network, ipc and uts namespaces. It waits
// there and holds nothing but its descriptors; the caller puts it into its control groups and writes down who
// it is. Then release() lets it confine itself and execute the VMM. If the caller dies or drops the object
// before release(), the process ends by itself. After it, the process is nobody's: it survives this one and
// is found by its record.
//
// Blocking. Errors: node.jail with what the jail said; node.jail_timeout.

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/os/fd.h"
#include "node/process/identity.h"
#include "node/slot/jail_plan.h"

namespace space::node::slot {

// Descriptors that the VMM inherits, in order: the first is number kFirstInheritedFd in it.
inline constexpr int kFirstInheritedFd = 5;
inline constexpr std::size_t kMaxInheritedFds = 8;

// Resource type: move only.
class JailProcess {
 public:
  JailProcess(JailProcess&&) noexcept = default;
  JailProcess& operator=(JailProcess&&) noexcept = default;

  [[nodiscard]] const process::Identity& identity() const { return identity_; }
  [[nodiscard]] int pidfd() const { return pidfd_.get(); }

  // Lets it go on and waits until it has become the VMM.
  Result<void> release(std::chrono::milliseconds limit);

  // What the VMM printed to stderr so far, for people: at most 4 KiB, escaped. Never blocks. After the death
  // of this object the VMM's prints are lost; it never blocks on them.
  std::string printed();
  // Gives up the pidfd.
  os::Fd take_pidfd() { return std::move(pidfd_); }

 private:
  friend Result<JailProcess> start_jail(const std::string&, const JailPlan&, const std::vector<int>&);
  JailProcess() = default;

  process::Identity identity_;
  os::Fd pidfd_;
  os::Fd control_;
  os::Fd stderr_;
};

// `program` is this program's own file (/proc/self/exe, or a path in tests).
Result<JailProcess> start_jail(const std::string& program, const JailPlan& plan,
                               const std::vector<int>& inherited);

}  // namespace space::node::slot
