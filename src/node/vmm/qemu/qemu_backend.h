// SPDX-License-Identifier: Apache-2.0
#pragma once
// QEMU's microvm machine in a jail: KVM where it works, software emulation elsewhere.

#include <memory>
#include <string>

#include "node/slot/jail_root.h"
#include "node/vmm/backend.h"

namespace space::node::vmm::qemu {

struct QemuOptions {
  std::string node_dir;                 // where the jail's root is made
  std::string self = "/proc/self/exe";  // the program that has the jail mode
  std::string qemu;                     // absolute; empty: found in PATH by architecture
  Acceleration acceleration = Acceleration::kTcg;
  std::uint64_t tsc_khz = 0;
};

// Makes the jail's root when it isn't there. Blocking. Errors: failed_precondition node.qemu_missing;
// node.jail_root.
Result<std::unique_ptr<Backend>> open_qemu(const QemuOptions& options);

// Does the file system of `directory` take O_DIRECT?
bool supports_direct_io(const std::string& directory);

}  // namespace space::node::vmm::qemu
