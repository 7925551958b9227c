// SPDX-License-Identifier: Apache-2.0
#pragma once
// The peer of `space-bench exec`: the same virtual machine with a minimal guest program
// (bench/guest/bare_exec.c) as its init, and nothing between it and this process but the virtio port's
// socket. Resource type; blocking.

#include <memory>
#include <string>

#include "bench/child.h"

namespace space::bench {

class BareGuest {
 public:
  // `kernel` and `initramfs` are files. Errors: bench.*.
  static Result<std::unique_ptr<BareGuest>> start(const std::string& directory, const std::string& kernel,
                                                  const std::string& initramfs,
                                                  const std::string& acceleration);
  // Sends a line and waits for the answering line. "exec" spawns and waits for a process in the guest, "echo"
  // does not.
  Result<std::string> ask(const std::string& line);

 private:
  BareGuest() = default;
  Result<std::string> read_line(std::chrono::milliseconds limit);
  std::unique_ptr<Child> qemu_;
  os::Fd port_;
  LineReader lines_;
};

}  // namespace space::bench
