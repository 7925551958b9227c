// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one interface that knows how to run a guest.
//
// A backend is given a slot with its directory and sockets and turns a MachineSpec into a process that waits
// in its jail. Everything above sees capabilities, the three sockets (guest channel, machine protocol,
// console) and a process.

#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "node/slot/jail_process.h"
#include "node/slot/slot.h"
#include "node/vmm/machine.h"

namespace space::node::vmm {

// Resource type; any thread, one call per slot at a time. Blocking.
class Backend {
 public:
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual Capabilities capabilities() const = 0;
  // Memory that a machine needs beside its guest's, at most; for admission and for the sandbox's limit.
  [[nodiscard]] virtual std::uint64_t overhead_bytes(const Resources& resources) const = 0;
  // Tasks that a machine may have.
  [[nodiscard]] virtual std::uint32_t max_tasks(const Resources& resources) const = 0;

  // Puts the machine's files into the slot. Precondition: the slot's directory exists and is empty.
  // Errors: those of files; node.slot.
  virtual Result<void> fill(const MachineSpec& spec, const slot::Slot& slot) = 0;
  // A process that waits for release() and then becomes the machine. `sockets` come from listen_in_slot.
  // Precondition: filled. Errors: node.jail.
  virtual Result<slot::JailProcess> start(const MachineSpec& spec, const slot::Slot& slot,
                                          std::vector<os::Fd> sockets) = 0;

 protected:
  Backend() = default;
};

}  // namespace space::node::vmm
