// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rate of this processor's time stamp counter.

#include <cstdint>

namespace space::node::vmm {

// kHz, measured against the monotonic clock; 0 where there is no such counter. Blocking for 50 ms.
std::uint64_t measure_tsc_khz();

}  // namespace space::node::vmm
