// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a guest is to be, and what a backend can do. Value types; nothing here says how.

#include <cstdint>
#include <string>
#include <string_view>

namespace space::node::vmm {

struct Resources {
  std::uint32_t vcpus = 1;
  std::uint64_t memory_bytes = 0;
  std::uint64_t disk_bytes = 0;
  bool operator==(const Resources&) const = default;
};

// Files of a template on this machine, read-only for every user.
struct BootFiles {
  std::string disk;       // raw root file system
  std::string kernel;     // Linux boot image
  std::string initramfs;  // cpio with the Space Daemon
};

struct MachineSpec {
  Resources resources;
  BootFiles boot;
  std::string hostname;  // of the guest; [a-z0-9-], at most 63 characters; empty: "sandbox"
  std::string init;      // "systemd", or empty for the Space Daemon itself
};

enum class Acceleration : std::uint8_t { kTcg, kKvm };
constexpr std::string_view to_string(Acceleration acceleration) {
  return acceleration == Acceleration::kKvm ? "kvm" : "tcg";
}

enum class Isolation : std::uint8_t {
  kMicroVm,  // a kernel of its own behind a confined VMM
  kProcess,  // namespaces only: for tests
};

struct Capabilities {
  std::string architecture;  // of the guest: "x86_64"
  Isolation isolation = Isolation::kMicroVm;
  Acceleration acceleration = Acceleration::kTcg;
  bool memory_snapshot = false;
  bool disk_snapshot = false;
  bool fork = false;
};

}  // namespace space::node::vmm
