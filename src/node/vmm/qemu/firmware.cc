// SPDX-License-Identifier: Apache-2.0
#include "node/vmm/qemu/firmware.h"

#include <cstdlib>

#include "lib/os/file.h"

namespace space::node::vmm::qemu {
namespace {

constexpr const char* kPlaces[] = {"/usr/bin", "/usr/local/bin", "/usr/libexec", "/opt/qemu/bin"};

}  // namespace

Result<std::string> find_qemu() {
  for (const char* place : kPlaces) {
    std::string path = std::string(place) + "/qemu-system-x86_64";
    if (os::exists(path)) return path;
  }
  return make_error(Code::kFailedPrecondition, "node.qemu_missing",
                    "QEMU is not installed: apt-get install qemu-system-x86");
}

Result<RuntimeFiles> runtime_files(const std::string& qemu, Acceleration acceleration) {
  std::string prefix = qemu.substr(0, qemu.rfind("/bin/"));
  RuntimeFiles files;
  files.programs = {qemu};
  // Distributions build the translator into the program or as a module beside it.
  for (const char* directory : {"/lib/x86_64-linux-gnu/qemu", "/lib/qemu", "/lib64/qemu"}) {
    std::string module = prefix + directory + "/accel-tcg-x86_64.so";
    if (acceleration == Acceleration::kTcg && os::exists(module)) files.programs.push_back(module);
  }
  // The first name may be a link; the jail gets the file under that name.
  for (const char* name : {"/share/qemu/bios-microvm.bin", "/share/seabios/bios-microvm.bin"}) {
    if (os::exists(prefix + name)) {
      files.data.push_back(prefix + name);
      break;
    }
  }
  if (files.data.empty()) {
    return make_error(
        Code::kFailedPrecondition, "node.qemu_missing",
        "QEMU's firmware bios-microvm.bin is missing: apt-get install seabios qemu-system-data");
  }
  return files;
}

}  // namespace space::node::vmm::qemu
