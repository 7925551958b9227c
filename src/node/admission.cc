// SPDX-License-Identifier: Apache-2.0
#include "node/admission.h"

#include <algorithm>
#include <string>

namespace space::node {
namespace {

std::uint64_t usable_memory(const Machine& machine) {
  return machine.memory_bytes - std::min(machine.memory_bytes, machine.memory_reserve_bytes);
}

}  // namespace

std::uint64_t default_memory_reserve(std::uint64_t memory_bytes) {
  return std::max<std::uint64_t>(memory_bytes / 16, 256 * kMiB);
}

Result<void> validate(const vmm::Resources& wanted, std::uint64_t overhead_bytes,
                      std::uint64_t template_disk_bytes, const Machine& machine) {
  if (wanted.vcpus == 0 || wanted.vcpus > machine.cpus) {
    return field_error(
        "vcpus", "node.bad_vcpus",
        "vcpus must be 1 to " + std::to_string(machine.cpus) + ", the processors of this machine");
  }
  if (wanted.memory_bytes < kMinMemoryBytes) {
    return field_error("memory_bytes", "node.memory_too_small",
                       "a sandbox needs at least " + format_size(kMinMemoryBytes) + " of memory");
  }
  if (wanted.memory_bytes % kMemoryGranularity != 0) {
    return field_error("memory_bytes", "node.memory_unaligned", "memory must be whole MiB");
  }
  std::uint64_t usable = usable_memory(machine);
  if (usable < overhead_bytes || wanted.memory_bytes > usable - overhead_bytes) {
    std::uint64_t most = usable < overhead_bytes ? 0 : (usable - overhead_bytes) / kMiB * kMiB;
    return field_error("memory_bytes", "node.memory_too_large",
                       "this machine can give a sandbox at most " + format_size(most));
  }
  if (wanted.disk_bytes < template_disk_bytes) {
    return field_error(
        "disk_bytes", "node.disk_too_small",
        "the template's disk has " + format_size(template_disk_bytes) + "; a sandbox can't have less");
  }
  if (wanted.disk_bytes > kMaxDiskBytes) {
    return field_error("disk_bytes", "node.disk_too_large",
                       "a disk may have at most " + format_size(kMaxDiskBytes));
  }
  if (wanted.disk_bytes % kDiskGranularity != 0) {
    return field_error("disk_bytes", "node.disk_unaligned", "a disk must be a multiple of 4 KiB");
  }
  return {};
}

Result<void> admit(const vmm::Resources& wanted, std::uint64_t overhead_bytes, const Machine& machine,
                   const Load& load) {
  if (load.sandboxes >= machine.max_sandboxes) {
    return make_error(
        Code::kResourceExhausted, "node.too_many_sandboxes",
        "this node already has " + std::to_string(load.sandboxes) + " sandboxes; end one first");
  }
  std::uint64_t usable = usable_memory(machine);
  std::uint64_t left = usable - std::min(usable, load.memory_committed_bytes);
  std::uint64_t needed = wanted.memory_bytes + overhead_bytes;
  if (needed > left) {
    return make_error(Code::kResourceExhausted, "node.no_memory",
                      "the sandbox needs " + format_size(needed) + " with its machine, " + format_size(left) +
                          " are not promised to others; end one first");
  }
  if (load.disk_free_bytes < machine.disk_reserve_bytes) {
    return make_error(Code::kResourceExhausted, "node.no_disk",
                      "only " + format_size(load.disk_free_bytes) + " of disk are free; " +
                          format_size(machine.disk_reserve_bytes) + " are kept in reserve");
  }
  return {};
}

}  // namespace space::node
