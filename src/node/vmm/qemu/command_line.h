// SPDX-License-Identifier: Apache-2.0
#pragma once
// QEMU's command line for a machine in a jail. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "node/vmm/machine.h"

namespace space::node::vmm::qemu {

// Paths in the jail.
inline constexpr const char* kDiskPath = "/template/disk.img";
inline constexpr const char* kKernelPath = "/template/vmlinuz";
inline constexpr const char* kInitramfsPath = "/template/initramfs";
inline constexpr const char* kOverlayPath = "/slot/overlay.qcow2";
inline constexpr const char* kMemoryPath = "/slot/memory";

enum class DiskCache : std::uint8_t {
  kDirect,  // the layer bypasses the host's page cache
  kHost,    // for file systems that refuse O_DIRECT
};

struct CommandLine {
  std::string program;  // absolute, in the jail
  Acceleration acceleration = Acceleration::kTcg;
  Resources resources;
  std::string hostname;       // as in MachineSpec
  std::string init;           // as in MachineSpec
  std::uint64_t tsc_khz = 0;  // of the host; 0: unknown, the guest calibrates
  DiskCache disk_cache = DiskCache::kDirect;
  // Listening sockets that QEMU inherits.
  int channel_fd = -1;
  int qmp_fd = -1;
  int console_fd = -1;
};

// Megabytes of translated code that TCG keeps. QEMU's own default is a quarter of the machine's memory, up to
// 1 GiB.
inline constexpr std::uint64_t kTranslationBufferMib = 128;

std::vector<std::string> command_line(const CommandLine& input);
// What the guest's kernel is told; part of the above.
std::string kernel_arguments(const CommandLine& input);

}  // namespace space::node::vmm::qemu
