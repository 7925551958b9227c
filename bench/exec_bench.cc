// SPDX-License-Identifier: Apache-2.0
// What a command through the whole platform costs, beside the same spawn and wait done by a minimal guest
// program on the bare channel of the same kind of machine. The guests take turns, so that both see the same
// weather.
#include "bench/bare_guest.h"
#include "bench/benches.h"
#include "bench/command.h"
#include "bench/figures.h"
#include "bench/initramfs.h"
#include "bench/platform.h"

namespace space::bench {
namespace {

namespace json = boost::json;

constexpr int kWarmUp = 10;
constexpr int kRounds = 200;
constexpr std::size_t kStreamBytes = 256u << 20;
constexpr std::size_t kCopyBytes = 128u << 20;

class Zeros final : public http::client::BodySource {
 public:
  explicit Zeros(std::size_t bytes) : left_(bytes) {}
  async::Task<Result<std::size_t>> read(std::span<std::byte> out) override {
    std::size_t take = std::min(left_, out.size());
    // Not zeros alone: nothing on the way may profit from them.
    for (std::size_t i = 0; i < take; i += 64) out[i] = static_cast<std::byte>(left_ + i);
    left_ -= take;
    co_return take;
  }

 private:
  std::size_t left_;
};

async::Task<Result<double>> upload(cli::Api& api, std::string session) {
  auto start = std::chrono::steady_clock::now();
  Zeros source(kCopyBytes);
  auto request = cli::Api::request("PUT", cli::session_target(session) + "/files?path=%2Froot%2Fcopy");
  SPACE_CO_TRY(auto response, co_await api.client().upload(std::move(request), source, kCopyBytes));
  if (!response.ok()) co_return cli::Api::error_from(response);
  co_return ms_since(start);
}

}  // namespace

Result<json::object> run_exec() {
  SPACE_TRY(auto platform, Platform::start());
  SPACE_TRY(auto session, platform->create_session({}));
  std::string id = cli::text_of(session, "id");
  std::string acceleration = cli::text_of(*cli::member(session, "sandbox"), "acceleration");
  std::string files = program_directory() + "/../../templates";
  std::string initramfs = platform->directory() + "/bare.initramfs";
  SPACE_CHECK_OK(
      write_initramfs_with_init(files + "/base/initramfs", program_directory() + "/bare-exec", initramfs));
  SPACE_TRY(auto bare,
            BareGuest::start(platform->directory(), files + "/base/vmlinuz", initramfs, acceleration));

  Samples through_api, bare_exec, echo;
  for (int i = 0; i < kWarmUp + kRounds; ++i) {
    SPACE_TRY(auto ran,
              platform->run<Ran>([&](cli::Api& api) { return run_command(api, id, command({"true"})); }));
    auto start = std::chrono::steady_clock::now();
    SPACE_TRY(auto executed, bare->ask("exec"));
    double bare_ms = ms_since(start);
    if (executed != "done 0")
      return make_error(Code::kInternal, "bench.bare_guest", "the bare guest's command failed: " + executed);
    start = std::chrono::steady_clock::now();
    SPACE_CHECK_OK([&]() -> Result<void> {
      auto answer = bare->ask("echo");
      return answer.ok() ? Result<void>() : Result<void>(std::move(answer).error());
    }());
    double echo_ms = ms_since(start);
    if (i < kWarmUp) continue;
    through_api.add(ran.ms);
    bare_exec.add(bare_ms);
    echo.add(echo_ms);
    if ((i - kWarmUp) % 50 == 49)
      say(std::to_string(i - kWarmUp + 1) + " of " + std::to_string(kRounds) + " commands");
  }
  say("streaming");
  std::string count = std::to_string(kStreamBytes);
  SPACE_TRY(auto streamed, platform->run<Ran>([&](cli::Api& api) {
    return run_command(api, id, command({"head", "-c", count, "/dev/zero"}));
  }));
  if (streamed.bytes != kStreamBytes)
    return make_error(Code::kDataLoss, "bench.short_stream", "a stream lost bytes");
  say("copying");
  SPACE_TRY(double copy_ms, platform->run<double>([&](cli::Api& api) { return upload(api, id); }));

  json::object figures;
  figures["bench"] = "exec";
  figures["acceleration"] = acceleration;
  figures["rounds"] = kRounds;
  figures["rtt_ms_p50"] = rounded(through_api.percentile(50));
  figures["rtt_ms_p99"] = rounded(through_api.percentile(99));
  figures["bare_exec_ms_p50"] = rounded(bare_exec.percentile(50));
  figures["echo_ms_p50"] = rounded(echo.percentile(50));
  figures["ratio"] = rounded(through_api.percentile(50) / bare_exec.percentile(50));
  figures["stream_mib_s"] = rounded(static_cast<double>(kStreamBytes >> 20) / streamed.ms * 1000);
  figures["copy_mib_s"] = rounded(static_cast<double>(kCopyBytes >> 20) / copy_ms * 1000);
  return figures;
}

}  // namespace space::bench
