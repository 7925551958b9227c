// SPDX-License-Identifier: Apache-2.0
#pragma once
// May another sandbox start on this machine? Pure.

#include <cstdint>

#include "lib/base/result.h"
#include "lib/base/size.h"
#include "node/vmm/machine.h"

namespace space::node {

inline constexpr std::uint64_t kMinMemoryBytes = 64 * kMiB;
inline constexpr std::uint64_t kMaxDiskBytes = 1024 * kGiB;
inline constexpr std::uint64_t kMemoryGranularity = kMiB;
inline constexpr std::uint64_t kDiskGranularity = 4096;

struct Machine {
  std::uint32_t cpus = 1;
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_reserve_bytes = 0;  // for the host itself
  std::uint64_t disk_reserve_bytes = 2 * kGiB;
  std::uint32_t max_sandboxes = 256;
};

struct Load {
  std::uint64_t memory_committed_bytes = 0;  // with overheads
  std::uint64_t disk_free_bytes = 0;
  std::uint32_t sandboxes = 0;
};

// Host memory to leave alone: a sixteenth, at least 256 MiB.
std::uint64_t default_memory_reserve(std::uint64_t memory_bytes);

// Can such a sandbox exist here at all? Errors, invalid_argument with the field (vcpus, memory_bytes,
// disk_bytes): node.bad_vcpus, node.memory_too_small, node.memory_too_large, node.memory_unaligned,
// node.disk_too_small (smaller than the template's disk), node.disk_too_large, node.disk_unaligned.
Result<void> validate(const vmm::Resources& wanted, std::uint64_t overhead_bytes,
                      std::uint64_t template_disk_bytes, const Machine& machine);
// Is there room now? Errors, resource_exhausted: node.too_many_sandboxes, node.no_memory, node.no_disk.
Result<void> admit(const vmm::Resources& wanted, std::uint64_t overhead_bytes, const Machine& machine,
                   const Load& load);

}  // namespace space::node
