// SPDX-License-Identifier: Apache-2.0
#pragma once
// Giving up Linux capabilities for good. Acts on the calling thread, so call it before there are others.
// Posture: internal. Errors: confine.capabilities.

#include <cstdint>
#include <span>
#include <string_view>

#include "lib/base/result.h"

namespace space::os::confine {

// One capability that a process keeps, and what it needs it for. The reason is for the reader of the list.
struct KeptCapability {
  int capability;  // CAP_* of linux/capability.h
  std::string_view reason;
};

// Reduces the effective, permitted and inheritable sets and the bounding set to `keep`, and empties the
// ambient set. With an empty list nothing is left. Capabilities that the process doesn't have are not an
// error.
//
// Shrinking the bounding set needs CAP_SETPCAP. A process without it must have called forbid_new_privileges()
// before: then no program that it starts can gain anything from the bounding set, and it stays as it is.
Result<void> keep_only_capabilities(std::span<const KeptCapability> keep);

// Sets of the calling thread as bit masks, bit n for capability n.
struct CapabilitySets {
  std::uint64_t effective = 0;
  std::uint64_t permitted = 0;
  std::uint64_t inheritable = 0;
  std::uint64_t bounding = 0;
  std::uint64_t ambient = 0;
};
Result<CapabilitySets> capability_sets();

}  // namespace space::os::confine
