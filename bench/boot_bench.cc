// SPDX-License-Identifier: Apache-2.0
#include "bench/benches.h"
#include "bench/figures.h"
#include "bench/platform.h"

namespace space::bench {
namespace {
constexpr int kBoots = 9;
}

Result<boost::json::object> run_boot() {
  SPACE_TRY(auto platform, Platform::start());
  Samples total, kernel;
  std::string acceleration;
  for (int i = 0; i < kBoots; ++i) {
    auto start = std::chrono::steady_clock::now();
    SPACE_TRY(auto session, platform->create_session({}));
    total.add(ms_since(start));
    const auto* sandbox = cli::member(session, "sandbox");
    if (sandbox == nullptr)
      return make_error(Code::kInternal, "bench.no_sandbox", "a running session has no sandbox");
    kernel.add(static_cast<double>(cli::number_of(*sandbox, "kernel_boot_us")) / 1000);
    acceleration = cli::text_of(*sandbox, "acceleration");
    SPACE_CHECK_OK(platform->kill_session(cli::text_of(session, "id")));
    say("boot " + std::to_string(i + 1) + " of " + std::to_string(kBoots));
  }
  boost::json::object figures;
  figures["bench"] = "boot";
  figures["acceleration"] = acceleration;
  figures["boots"] = kBoots;
  figures["cold_boot_ms_p50"] = rounded(total.percentile(50));
  figures["cold_boot_ms_max"] = rounded(total.percentile(100));
  figures["kernel_ms_p50"] = rounded(kernel.percentile(50));
  figures["own_ms_p50"] = rounded(total.percentile(50) - kernel.percentile(50));
  return figures;
}

}  // namespace space::bench
