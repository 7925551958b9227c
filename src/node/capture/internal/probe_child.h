// SPDX-License-Identifier: Apache-2.0
#pragma once
// A child process with a little tracked memory that writes where it is told, so that a tracker can be asked
// about it. The child is made by fork() of a process that may have threads: it calls only what a signal
// handler may call. Resource type. Used by the probes and by tests.

#include <sys/types.h>

#include <cstdint>

#include "lib/base/result.h"
#include "lib/os/fd.h"
#include "node/capture/target.h"

namespace space::node::capture::internal {

enum class Arming : std::uint8_t { kNone, kWriteProtect };

// Where arming stopped in the child, as a sentence; `error_number` is its errno.
struct ArmFailure {
  const char* step = "";
  int error_number = 0;
};

class ProbeChild {
 public:
  // Maps the first `pages` pages of `image` privately (any file that can be mapped). Arming that fails is no
  // error of start(): see arm_failure().
  static Result<ProbeChild> start(int image, std::uint64_t pages, Arming arming);
  ProbeChild(ProbeChild&& other) noexcept;
  ProbeChild& operator=(ProbeChild&&) = delete;
  ~ProbeChild();  // ends the child and waits for it

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] RamRange range() const { return range_; }
  [[nodiscard]] const ArmFailure& arm_failure() const { return arm_failure_; }
  [[nodiscard]] bool armed() const { return armed_; }

  // Each returns when the child has done it.
  Result<void> store(std::uint64_t page, std::uint8_t value);  // by the processor
  Result<void> load(std::uint64_t page);                       // reads only
  Result<void> receive(std::uint64_t page,
                       std::uint8_t value);  // read(2) of a whole page from a pipe: the kernel writes

 private:
  ProbeChild(pid_t pid, os::Fd commands, os::Fd answers)
      : pid_(pid), commands_(std::move(commands)), answers_(std::move(answers)) {}
  Result<void> order(std::uint8_t what, std::uint64_t page, std::uint8_t value);

  pid_t pid_ = -1;
  os::Fd commands_;
  os::Fd answers_;
  RamRange range_;
  ArmFailure arm_failure_;
  bool armed_ = false;
};

// Registers [address, address + size) of this process for asynchronous write protection and protects it. The
// descriptor must stay open. Async-signal-safe. Returns the descriptor, or -1 with `failure` set.
int arm_write_protection(void* address, std::uint64_t size_bytes, ArmFailure& failure);

}  // namespace space::node::capture::internal
