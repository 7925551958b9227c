// SPDX-License-Identifier: Apache-2.0
#pragma once
// Test support: one unmodified QEMU `microvm` under software emulation with space-shim.so preloaded, its
// memory a private mapping of a placeholder, under QEMU's own seccomp filter. Failures are test failures.

#include <sys/types.h>

#include <string>
#include <vector>

#include "lib/os/fd.h"

namespace space::node::capture::e2e {

inline constexpr std::uint64_t kGuestMiB = 256;
inline constexpr std::uint64_t kGuestBytes = kGuestMiB << 20;

enum class Start { kBoot, kWaitForState };

class QemuVm {
 public:
  // `folder` holds vmlinuz, initramfs.gz and disk.img; `name` distinguishes VMs in it.
  QemuVm(const std::string& folder, const std::string& name, Start start);
  ~QemuVm();
  QemuVm(const QemuVm&) = delete;
  QemuVm& operator=(const QemuVm&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::string shim_socket() const { return base_ + ".shim"; }

  // Sends a command (JSON arguments without braces, or empty) and returns the line of its answer.
  std::string qmp(const std::string& command, const std::string& arguments = "", int fd = -1);
  // A line to the agent in the guest, and its answer.
  std::string say(const std::string& line);
  std::string line();  // the next line from the agent

  void save_devices(const std::string& path);  // while stopped
  // Loads device state into a VMM that waits for it, by descriptor as a jailed VMM must, and lets it run.
  void load_devices_and_run(const std::string& path);

 private:
  os::Fd connect(const std::string& path);
  [[nodiscard]] std::string evidence() const;  // what VMM and guest printed
  std::string read_line(int fd, std::string& buffer);

  std::string base_;
  pid_t pid_ = -1;
  os::Fd qmp_;
  os::Fd port_;
  std::string qmp_buffer_;
  std::string port_buffer_;
};

}  // namespace space::node::capture::e2e
