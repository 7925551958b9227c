// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "lib/base/bytes.h"
#include "node/doctor/looks.h"
#include "node/process/run.h"
#include "node/vmm/qemu/firmware.h"

namespace space::node::doctor {
namespace {

std::string first_line(const std::string& text) {
  return escape(text.substr(0, text.find('\n')));
}

Finding program(const std::vector<std::string>& argv, Status otherwise) {
  auto finished = process::run({argv, {}});
  if (!finished.ok()) return {otherwise, finished.error().message};
  if (finished->exit_code != 0)
    return {otherwise, argv[0] + " ended with status " + std::to_string(finished->exit_code) + ": " +
                           first_line(finished->output)};
  return {Status::kOk, first_line(finished->output)};
}

}  // namespace

Finding look_at_qemu() {
  auto path = vmm::qemu::find_qemu();
  if (!path.ok()) return {Status::kFail, path.error().message};
  auto files = vmm::qemu::runtime_files(*path, vmm::Acceleration::kTcg);
  if (!files.ok()) return {Status::kFail, files.error().message};
  Finding finding = program({*path, "--version"}, Status::kFail);
  int major = 0;
  int minor = 0;
  auto at = finding.found.find("version ");
  if (finding.status != Status::kOk || at == std::string::npos ||
      std::sscanf(finding.found.c_str() + at, "version %d.%d", &major, &minor) != 2) {
    return {Status::kFail, finding.found};
  }
  // microvm with ACPI and the device options used came together in 7.2, the oldest tried.
  if (major < 7 || (major == 7 && minor < 2)) return {Status::kFail, finding.found + ": older than 7.2"};
  return finding;
}

Finding look_at_mmdebstrap() {
  return program({"mmdebstrap", "--version"}, Status::kWarn);
}
Finding look_at_mke2fs() {
  return program({"mke2fs", "-V"}, Status::kWarn);
}

}  // namespace space::node::doctor
