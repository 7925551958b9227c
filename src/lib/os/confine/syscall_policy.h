// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which system calls a process may still make, as a seccomp filter.
//
// A policy is data: lists of rules, each with its reason, put together by a builder and checked once. What no
// list mentions is refused in the way the builder was given. Lists that several programs share are in
// syscall_sets.h.
//
//   SPACE_TRY(auto policy, SyscallPolicyBuilder(Refusal::kPermissionError)
//                              .allow(kProcessBasics)
//                              .allow(kConnectedSockets)
//                              .refuse(kEscapes, Refusal::kKillProcess)
//                              .build());
//   SPACE_CHECK_OK(policy.apply());   // irrevocable, all threads
//
// Value types. Posture: internal. Errors: confine.policy.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/base/result.h"

namespace space::os::confine {

// A condition on one argument of the call (0..5): (argument & mask) == value. Only numbers can be tested,
// never what a pointer points at.
struct ArgumentTest {
  unsigned argument = 0;
  std::uint64_t mask = ~std::uint64_t{0};
  std::uint64_t value = 0;
};
constexpr ArgumentTest argument_is(unsigned argument, std::uint64_t value) {
  return {argument, ~std::uint64_t{0}, value};
}
// For int arguments, whose upper half the kernel ignores.
constexpr ArgumentTest int_argument_is(unsigned argument, std::uint32_t value) {
  return {argument, 0xffffffffU, value};
}
constexpr ArgumentTest argument_lacks(unsigned argument, std::uint64_t bits) {
  return {argument, bits, 0};
}

struct SyscallRule {
  const char* name = nullptr;    // as in the manual: "openat"
  const char* reason = nullptr;  // why the program needs it, or why it is refused; not empty
  std::optional<ArgumentTest>
      test;  // absent: whatever the arguments. Several rules of one name: any may hold
};

enum class Refusal : std::uint8_t {
  kPermissionError,  // EPERM: for what libraries may try and can do without
  kNoSuchCall,       // ENOSYS: makes libraries fall back to an older call
  kKillProcess,      // SIGSYS to the whole process: for what only an attacker would call
};

// A checked and compiled filter.
class SyscallPolicy {
 public:
  // Confines every thread of the process, for ever. Sets no_new_privs first. Async-signal-safe on success.
  [[nodiscard]] Result<void> apply() const;
  // The filter program: an array of struct sock_filter.
  [[nodiscard]] ByteView program() const { return program_; }

 private:
  friend class SyscallPolicyBuilder;
  explicit SyscallPolicy(Bytes program) : program_(std::move(program)) {}
  Bytes program_;
};

class SyscallPolicyBuilder {
 public:
  explicit SyscallPolicyBuilder(Refusal otherwise) : otherwise_(otherwise) {}

  // The lists must stay valid until build().
  SyscallPolicyBuilder& allow(std::span<const SyscallRule> rules);
  // For calls that are in no allow list and deserve another refusal than the general one; a call that is in
  // both is an error of build(). A test here narrows the refusal, the general one applies to the rest.
  SyscallPolicyBuilder& refuse(std::span<const SyscallRule> rules, Refusal how);

  // Compiles for the architecture of this process; calls of another one kill it.
  // Errors: a name that doesn't exist, a rule without reason, a call both allowed and refused.
  [[nodiscard]] Result<SyscallPolicy> build() const;

 private:
  struct Entry {
    SyscallRule rule;
    std::optional<Refusal> refusal;  // absent: allowed
  };
  Refusal otherwise_;
  std::vector<Entry> entries_;
};

}  // namespace space::os::confine
