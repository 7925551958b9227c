// SPDX-License-Identifier: Apache-2.0
#pragma once
// A backend for tests of everything above it: the Space Daemon as an ordinary process behind the same three
// sockets.
//
// It has namespaces of its own (no network but loopback) and the host's root under a layer that vanishes with
// the slot, but it runs as root and nothing else holds it: never for code that isn't trusted. Chosen by
// --backend fake only.

#include <memory>
#include <string>

#include "node/vmm/backend.h"

namespace space::node::vmm::fake {

struct FakeOptions {
  std::string
      self;  // the program that has the modes jail and fake-vmm; a path, since it is executed in the jail
  std::string spaced;  // the Space Daemon
};

// Errors: failed_precondition node.no_spaced.
Result<std::unique_ptr<Backend>> open_fake(const FakeOptions& options);

// `space-node fake-vmm SPACED`: the process that stands for the VMM; descriptors as a VMM inherits them.
// Returns the exit status.
int fake_vmm_main(const std::string& spaced);

}  // namespace space::node::vmm::fake
