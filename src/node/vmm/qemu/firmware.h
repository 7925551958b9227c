// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where QEMU and the files that it reads at run time lie on this machine. Blocking. Errors:
// node.qemu_missing.

#include <string>
#include <vector>

#include "lib/base/result.h"
#include "node/vmm/machine.h"

namespace space::node::vmm::qemu {

// Absolute path of the emulator for this machine's architecture.
Result<std::string> find_qemu();

struct RuntimeFiles {
  std::vector<std::string> programs;  // the emulator and its loadable parts: what has libraries
  std::vector<std::string> data;      // firmware
};
// What a microvm with our devices needs, and nothing else.
Result<RuntimeFiles> runtime_files(const std::string& qemu, Acceleration acceleration);

}  // namespace space::node::vmm::qemu
