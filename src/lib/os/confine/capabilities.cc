// SPDX-License-Identifier: Apache-2.0
#include "lib/os/confine/capabilities.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace space::os::confine {
namespace {

constexpr int kMaxCapabilities = 64;
constexpr const char* kReason = "confine.capabilities";

std::uint64_t bit(int capability) {
  return std::uint64_t{1} << capability;
}

using Data = std::array<__user_cap_data_struct, 2>;

Result<Data> read_sets() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  Data data{};
  // SAFETY: version 3 fills exactly two structures.
  if (::syscall(SYS_capget, &header, data.data()) != 0) return errno_error(errno, kReason, "capget");
  return data;
}

std::uint64_t joined(std::uint32_t low, std::uint32_t high) {
  return (std::uint64_t{high} << 32) | low;
}

// 1 or 0, or -1 for a number that the kernel doesn't know.
int in_bounding_set(int capability) {
  return ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0);
}

}  // namespace

Result<CapabilitySets> capability_sets() {
  SPACE_TRY(Data data, read_sets());
  CapabilitySets sets;
  sets.effective = joined(data[0].effective, data[1].effective);
  sets.permitted = joined(data[0].permitted, data[1].permitted);
  sets.inheritable = joined(data[0].inheritable, data[1].inheritable);
  for (int i = 0; i < kMaxCapabilities; ++i) {
    if (in_bounding_set(i) == 1) sets.bounding |= bit(i);
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, i, 0, 0) == 1) sets.ambient |= bit(i);
  }
  return sets;
}

Result<void> keep_only_capabilities(std::span<const KeptCapability> keep) {
  std::uint64_t mask = 0;
  for (const auto& kept : keep) {
    if (kept.capability < 0 || kept.capability >= kMaxCapabilities) {
      return make_error(Code::kInvalidArgument, kReason,
                        "there is no capability " + std::to_string(kept.capability));
    }
    mask |= bit(kept.capability);
  }
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
    return errno_error(errno, kReason, "clearing ambient capabilities");

  SPACE_TRY(Data data, read_sets());
  bool may_shrink = (joined(data[0].effective, data[1].effective) & bit(CAP_SETPCAP)) != 0;
  for (int i = 0; may_shrink && i < kMaxCapabilities; ++i) {
    if ((mask & bit(i)) != 0 || in_bounding_set(i) != 1) continue;
    if (::prctl(PR_CAPBSET_DROP, i, 0, 0, 0) != 0)
      return errno_error(errno, kReason, "shrinking the bounding set");
  }
  if (!may_shrink && ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
    return make_error(Code::kPermissionDenied, kReason,
                      "the bounding set can't be shrunk without CAP_SETPCAP or no_new_privs");
  }

  for (std::size_t half = 0; half < data.size(); ++half) {
    auto wanted = static_cast<std::uint32_t>(mask >> (32 * half));
    data[half].permitted &= wanted;
    data[half].effective &= wanted;
    data[half].inheritable &= wanted;
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  // SAFETY: version 3 reads exactly two structures.
  if (::syscall(SYS_capset, &header, data.data()) != 0) return errno_error(errno, kReason, "capset");
  return {};
}

}  // namespace space::os::confine
