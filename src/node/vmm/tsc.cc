// SPDX-License-Identifier: Apache-2.0
#include "node/vmm/tsc.h"

#include <time.h>

#ifdef __x86_64__
#include <x86intrin.h>
#endif

namespace space::node::vmm {

#ifdef __x86_64__
namespace {

struct Sample {
  std::uint64_t ticks = 0;
  std::uint64_t ns = 0;
};

std::uint64_t raw_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

// The reading that was disturbed least of several.
Sample sample() {
  constexpr int kTries = 16;
  Sample best;
  std::uint64_t least = ~std::uint64_t{0};
  for (int i = 0; i < kTries; ++i) {
    std::uint64_t before = __rdtsc();
    std::uint64_t ns = raw_ns();
    std::uint64_t after = __rdtsc();
    if (after - before < least) {
      least = after - before;
      best = {before + (after - before) / 2, ns};
    }
  }
  return best;
}

}  // namespace

std::uint64_t measure_tsc_khz() {
  constexpr timespec kInterval{0, 50'000'000};
  Sample first = sample();
  ::nanosleep(&kInterval, nullptr);
  Sample second = sample();
  if (second.ns <= first.ns || second.ticks <= first.ticks) return 0;
  return (second.ticks - first.ticks) * 1'000'000 / (second.ns - first.ns);
}
#else
std::uint64_t measure_tsc_khz() {
  return 0;
}
#endif

}  // namespace space::node::vmm
