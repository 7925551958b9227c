// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of the agent mode.
//
//   space-node --data DIR --listen-fd N --link-socket PATH --templates DIR[:DIR...] --recipes DIR[:DIR...]
//   --uid-base U
//              [--accel auto|kvm|tcg] [--backend qemu|fake] [--spaced BIN] [--mkinitramfs FILE]
//              [--max-sandboxes N]
//              [--log-level debug|info|warning|error]

#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/obs/log.h"
#include "node/vmm/kvm_probe.h"

namespace space::node {

enum class BackendKind : std::uint8_t { kQemu, kFake };

struct Options {
  std::string data;    // DIR; DIR/node is the agent's own
  int listen_fd = -1;  // listening Unix socket for control
  std::string link_socket;
  std::vector<std::string> templates;  // built ones; DIR/node/templates comes before them
  std::vector<std::string> recipes;
  uid_t uid_base = 0;
  vmm::WantedAcceleration acceleration = vmm::WantedAcceleration::kAuto;
  BackendKind backend = BackendKind::kQemu;
  std::string spaced;
  std::string mkinitramfs;
  std::uint32_t max_sandboxes = 256;
  obs::Level level = obs::Level::kInfo;
};

// Pure. Errors: invalid_argument node.bad_option with the option as field.
Result<Options> parse_options(const std::vector<std::string>& arguments);

}  // namespace space::node
