// SPDX-License-Identifier: Apache-2.0
#pragma once
// The node with real QEMU machines. The template is build/templates/base when it has been built, else a
// minimal one made here from a kernel package (SPACE_TEST_KERNEL_DIR, unpacked) and busybox; without either
// the tests are skipped.

#include "integration/node/node_fixture.h"

namespace space::node::testing {

class QemuFixture : public NodeFixture {
 protected:
  void SetUp() override;
  std::vector<std::string> backend_arguments() override { return {"--backend", "qemu"}; }
  void make_template(const std::string& dir) override;

  // The template's name and a disk size that it allows.
  Result<nodeapi::SandboxInfoT> boot(const std::string& sandbox);
  // One request to the sandbox's daemon, through link, without an answer but its end.
  Result<void> ask_guest(const std::string& sandbox, Bytes guest_request);

 private:
  static std::string base_template();
};

}  // namespace space::node::testing
