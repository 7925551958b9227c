// SPDX-License-Identifier: Apache-2.0
#pragma once
// A real guest for tests: QEMU's microvm under software emulation, with a small root disk (busybox) and the
// daemon as PID 1 from an initramfs.

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "lib/os/fd.h"

namespace space::guest::testing {

// What a boot needs besides QEMU: SPACE_TEST_KERNEL_DIR names an unpacked kernel package (boot/vmlinuz-*,
// lib/modules/*). Empty when a boot is possible, else why not.
std::string cannot_boot();

class Machine {
 public:
  struct Options {
    std::string kernel_arguments;
    std::vector<std::string> init = {};    // path of another /init; default the daemon
    std::uint64_t disk_bytes = 64u << 20;  // of the device
    std::uint64_t filesystem_bytes = 64u << 20;
    int memory_mib = 256;
  };
  explicit Machine(const Options& options);
  ~Machine();
  Machine(const Machine&) = delete;

  // Connects to the guest's port; the bytes wait in QEMU until the guest opens it.
  os::Fd connect();
  // Waits until the VMM has ended by itself; false after a minute.
  bool wait_for_end();
  [[nodiscard]] std::string console() const;

 private:
  std::string dir_;
  pid_t pid_ = -1;
};

}  // namespace space::guest::testing
