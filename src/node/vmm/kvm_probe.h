// SPDX-License-Identifier: Apache-2.0
#pragma once
// Does KVM run guest code at native speed here?
//
// That /dev/kvm opens proves nothing: on some hosts (nested, paravirtualised) it accepts machines and then
// emulates them a thousand times slower, or for ever. So a guest of three instructions counts to ten million;
// native hardware needs a few milliseconds. It runs in a process of its own (`space-node probe-kvm`), because
// a broken KVM may not let go of the one that asked.

#include <chrono>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "node/vmm/machine.h"

namespace space::node::vmm {

inline constexpr auto kNativeLimit = std::chrono::milliseconds(200);
inline constexpr auto kProbeDeadline = std::chrono::milliseconds(1500);

struct KvmVerdict {
  bool usable = false;
  std::string found;  // for people: "10000000 rounds in 3.9 ms"
};

// The probe itself; prints one line on stdout and returns the exit status: 0 native, 1 too slow or broken, 2
// no KVM. May hang: only for probe-kvm.
int kvm_probe_main();

// Runs `program` probe-kvm within kProbeDeadline. Blocking.
KvmVerdict probe_kvm(const std::string& program);

// auto, kvm, tcg of --accel.
enum class WantedAcceleration : std::uint8_t { kAuto, kKvm, kTcg };
Result<WantedAcceleration> parse_acceleration(std::string_view text);
// Errors: failed_precondition node.kvm_unusable when KVM was demanded and doesn't pass.
Result<Acceleration> choose_acceleration(WantedAcceleration wanted, const std::string& program);

}  // namespace space::node::vmm
