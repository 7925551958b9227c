// SPDX-License-Identifier: Apache-2.0
#include "lib/os/confine/syscall_policy.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <memory>
#include <string>
#include <type_traits>

#include "lib/os/confine/process.h"
#include "lib/os/fd.h"

namespace space::os::confine {
namespace {

constexpr const char* kReason = "confine.policy";

std::uint32_t action_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::kPermissionError:
      return SCMP_ACT_ERRNO(EPERM);
    case Refusal::kNoSuchCall:
      return SCMP_ACT_ERRNO(ENOSYS);
    case Refusal::kKillProcess:
      return SCMP_ACT_KILL_PROCESS;
  }
  return SCMP_ACT_KILL_PROCESS;
}

struct Release {
  void operator()(void* context) const { seccomp_release(context); }
};
using Context = std::unique_ptr<std::remove_pointer_t<scmp_filter_ctx>, Release>;

Error policy_error(const SyscallRule& rule, const std::string& what) {
  return make_error(Code::kInternal, kReason,
                    std::string(rule.name == nullptr ? "(no name)" : rule.name) + ": " + what);
}

// libseccomp writes its program to a descriptor only.
Result<Bytes> export_program(void* context) {
  Fd memory(::memfd_create("seccomp", MFD_CLOEXEC));
  if (!memory) return errno_error(errno, kReason, "memfd_create");
  if (int failed = seccomp_export_bpf(context, memory.get()); failed != 0)
    return errno_error(-failed, kReason, "compiling the filter");
  off_t size = ::lseek(memory.get(), 0, SEEK_END);
  if (size <= 0 || size % static_cast<off_t>(sizeof(sock_filter)) != 0 ||
      size / static_cast<off_t>(sizeof(sock_filter)) > BPF_MAXINSNS) {
    return make_error(Code::kInternal, kReason, "the filter has an impossible size");
  }
  Bytes program(static_cast<std::size_t>(size));
  if (::pread(memory.get(), program.data(), program.size(), 0) != size)
    return errno_error(errno, kReason, "reading the filter back");
  return program;
}

}  // namespace

SyscallPolicyBuilder& SyscallPolicyBuilder::allow(std::span<const SyscallRule> rules) {
  for (const auto& rule : rules) entries_.push_back({rule, {}});
  return *this;
}

SyscallPolicyBuilder& SyscallPolicyBuilder::refuse(std::span<const SyscallRule> rules, Refusal how) {
  for (const auto& rule : rules) entries_.push_back({rule, how});
  return *this;
}

Result<SyscallPolicy> SyscallPolicyBuilder::build() const {
  Context context(seccomp_init(action_of(otherwise_)));
  if (!context) return make_error(Code::kInternal, kReason, "seccomp_init failed");
  // A binary search instead of a chain of comparisons; an older library just makes a longer filter.
  seccomp_attr_set(context.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);

  std::map<int, std::optional<Refusal>> seen;
  std::map<int, bool> unconditional;
  for (const auto& [rule, refusal] : entries_) {
    if (rule.name == nullptr || rule.reason == nullptr || *rule.reason == '\0')
      return policy_error(rule, "a rule needs a name and a reason");
    int number = seccomp_syscall_resolve_name(rule.name);
    if (number == __NR_SCMP_ERROR) return policy_error(rule, "there is no such system call");
    if (number < 0) continue;  // exists on other architectures only
    if (auto before = seen.find(number); before != seen.end() && before->second != refusal) {
      return policy_error(rule, "is in lists that contradict each other");
    }
    seen.emplace(number, refusal);
    std::uint32_t action = refusal ? action_of(*refusal) : SCMP_ACT_ALLOW;
    if (action == action_of(otherwise_)) continue;  // nothing to say about it
    // Without arguments a rule holds for all: a narrower one beside it would change nothing.
    if (unconditional[number]) continue;
    if (!rule.test) unconditional[number] = true;
    int failed = 0;
    if (rule.test) {
      if (rule.test->argument > 5 || (rule.test->value & ~rule.test->mask) != 0)
        return policy_error(rule, "the test of an argument can't hold");
      scmp_arg_cmp compare{rule.test->argument, SCMP_CMP_MASKED_EQ, rule.test->mask, rule.test->value};
      failed = seccomp_rule_add_array(context.get(), action, number, 1, &compare);
    } else {
      failed = seccomp_rule_add_array(context.get(), action, number, 0, nullptr);
    }
    if (failed != 0 && failed != -EEXIST)
      return policy_error(rule, "libseccomp refused the rule, error " + std::to_string(-failed));
  }
  SPACE_TRY(Bytes program, export_program(context.get()));
  return SyscallPolicy(std::move(program));
}

Result<void> SyscallPolicy::apply() const {
  SPACE_CHECK_OK(forbid_new_privileges());
  // struct sock_fprog, with the constness that the kernel respects.
  struct {
    unsigned short length;
    const std::byte* filter;
  } program{static_cast<unsigned short>(program_.size() / sizeof(sock_filter)), program_.data()};
  static_assert(sizeof program == sizeof(sock_fprog));
  // SAFETY: export_program() made an array of sock_filter; vector storage is aligned for it; the kernel only
  // reads.
  long failed = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (failed < 0) return errno_error(errno, kReason, "installing the filter");
  if (failed > 0) return make_error(Code::kInternal, kReason, "a thread could not be confined");
  return {};
}

}  // namespace space::os::confine
