// SPDX-License-Identifier: Apache-2.0
// space-node: the node agent, and the small programs that it starts of itself.
//
//   space-node --data DIR ...             the agent (node/options.h)
//   space-node doctor [--json]            what this machine can do
//   space-node build-template ...         one build of a template (node/template/build_main.h)
//   space-node jail                       internal: becomes a confined VMM
//   space-node fake-vmm SPACED            internal: stands for a VMM in tests
//   space-node probe-kvm                  internal: does KVM run at native speed
#include <cstdio>
#include <string>
#include <vector>

#include "node/doctor/doctor.h"
#include "node/node.h"
#include "node/slot/jail.h"
#include "node/template/build_main.h"
#include "node/vmm/fake/fake_backend.h"
#include "node/vmm/kvm_probe.h"

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::string mode = arguments.empty() ? std::string() : arguments[0];
  if (mode == "jail") return space::node::slot::jail_main();
  if (mode == "fake-vmm" && arguments.size() == 2) return space::node::vmm::fake::fake_vmm_main(arguments[1]);
  if (mode == "probe-kvm") return space::node::vmm::kvm_probe_main();
  if (mode == "build-template") return space::node::tmpl::build_template_main(argc - 1, argv + 1);
  if (mode == "doctor") return space::node::doctor::doctor_main({arguments.begin() + 1, arguments.end()});
  auto options = space::node::parse_options(arguments);
  if (!options.ok()) {
    std::fprintf(stderr, "space-node: %s\n", options.error().message.c_str());
    return 2;
  }
  return space::node::run_agent(*options);
}
