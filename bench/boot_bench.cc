// SPDX-License-Identifier: Apache-2.0
#include "bench/benches.h"
#include "bench/command.h"
#include "bench/figures.h"
#include "bench/platform.h"

namespace space::bench {
namespace {
constexpr int kBoots = 9;

// When the kernel handed over to user space, on its own clock: "[    1.234567] Run /init as init process".
Result<double> kernel_ms(const std::string& log) {
  auto at = log.find("] Run /init");
  auto open = at == std::string::npos ? at : log.rfind('[', at);
  if (open == std::string::npos)
    return make_error(Code::kInternal, "bench.no_kernel_time",
                      "the guest kernel's log doesn't say when it started init");
  return std::stod(log.substr(open + 1, at - open - 1)) * 1000;
}

}  // namespace

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
    std::string id = cli::text_of(session, "id");
    SPACE_TRY(auto log,
              platform->run<Ran>([&](cli::Api& api) { return run_command(api, id, command({"dmesg"})); }));
    SPACE_TRY(double own, kernel_ms(log.output));
    kernel.add(own);
    acceleration = cli::text_of(*sandbox, "acceleration");
    SPACE_CHECK_OK(platform->kill_session(id));
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
