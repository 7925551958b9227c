// SPDX-License-Identifier: Apache-2.0
// space-control: the control plane. Started by `space up` as its own user, with nothing but the descriptors
// it is given.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdio>

#include "control/control.h"
#include "control/openapi_text.h"
#include "lib/os/file.h"

namespace {

using namespace space;

struct Flags {
  int api_fd = -1;
  int state_fd = -1;
  int run_fd = -1;
  std::string admin_key_sha256;
  std::string url;
  std::string openapi;
  std::string log_level = "info";
};

obs::Level level_of(const std::string& name) {
  if (name == "debug") return obs::Level::kDebug;
  if (name == "warning") return obs::Level::kWarning;
  if (name == "error") return obs::Level::kError;
  return obs::Level::kInfo;
}

std::string fd_path(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

async::Task<void> run(control::Control& control, const obs::Log& log, std::string url, int& exit_code) {
  boost::asio::signal_set signals(co_await boost::asio::this_coro::executor, SIGTERM, SIGINT);
  auto started = co_await control.start();
  if (!started.ok()) {
    log.error("not_started", {{"error", started.error().describe()}});
    exit_code = 1;
    co_return;
  }
  log.info("serving", {{"url", url}});
  boost::system::error_code error;
  co_await signals.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, error));
  co_await control.stop(control::Control::Sessions::kKill);
  exit_code = 0;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("The control plane of SPACE. Started by `space up`.", "space-control");
  app.add_option("--api-fd", flags.api_fd, "Listening TCP socket of the API")->required();
  app.add_option("--state-fd", flags.state_fd, "Directory for meta.db and logs/")->required();
  app.add_option("--run-fd", flags.run_fd, "Directory that holds node.sock and link-control.sock")
      ->required();
  app.add_option("--admin-key-sha256", flags.admin_key_sha256,
                 "SHA-256 of the administrator's key, in hexadecimal")
      ->required();
  app.add_option("--url", flags.url, "Where the API can be reached")->required();
  app.add_option("--openapi", flags.openapi, "File to serve as /v1/openapi.yaml instead of the one built in");
  app.add_option("--log-level", flags.log_level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  CLI11_PARSE(app, argc, argv);

  ::signal(SIGPIPE, SIG_IGN);
  // This process gains nothing by any exec, and its memory, which holds what clients send, stays out of core
  // files.
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);

  SystemClock clock;
  os::SystemRandom random;
  obs::Log log(STDERR_FILENO, "control", clock, level_of(flags.log_level));

  control::ControlOptions options;
  options.api_listener = os::Fd(flags.api_fd);
  options.state_directory = fd_path(flags.state_fd);
  options.connect_node = rpc::Client::to_path(fd_path(flags.run_fd) + "/node.sock");
  options.connect_link = rpc::Client::to_path(fd_path(flags.run_fd) + "/link-control.sock");
  options.admin_key_sha256 = flags.admin_key_sha256;
  options.version = SPACE_VERSION;
  options.openapi = control::kOpenapiText;
  if (!flags.openapi.empty()) {
    auto text = os::read_file(flags.openapi);
    if (!text.ok()) {
      log.error("not_started", {{"error", text.error().describe()}});
      return 1;
    }
    options.openapi = std::move(*text);
  }

  async::Loop loop(1);
  int exit_code = 1;
  control::Control control(loop.get_executor(), std::move(options), clock, random, log);
  boost::asio::co_spawn(loop, run(control, log, flags.url, exit_code), [](std::exception_ptr failure) {
    if (failure) std::rethrow_exception(failure);
  });
  loop.run();
  return exit_code;
}
