// SPDX-License-Identifier: Apache-2.0
// space-link: host end of the guest channels, QMP sockets and consoles. Started by `space up` as its own user
// with two listening sockets; serves until SIGTERM or SIGINT. Exit codes: 0 stopped, 1 could not start, 2
// wrong command line.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/obs/log.h"
#include "lib/os/random.h"
#include "link/confinement.h"
#include "link/link.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
// The leak checker starts a process at exit, which this one may not.
extern "C" int __lsan_is_turned_off() {
  return 1;
}
#endif
#endif

namespace {

using namespace space;

struct Options {
  int node_fd = -1;
  int control_fd = -1;
  obs::Level level = obs::Level::kInfo;
};

std::optional<int> parse_fd(std::string_view text) {
  int fd = -1;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), fd);
  if (failed != std::errc() || end != text.data() + text.size() || fd <= 2) return {};
  return fd;
}

std::optional<obs::Level> parse_level(std::string_view text) {
  if (text == "debug") return obs::Level::kDebug;
  if (text == "info") return obs::Level::kInfo;
  if (text == "warning") return obs::Level::kWarning;
  if (text == "error") return obs::Level::kError;
  return {};
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    std::string_view name = argv[i];
    if (i + 1 == argc) return {};
    if (name == "--log-level") {
      auto level = parse_level(argv[i + 1]);
      if (!level) return {};
      options.level = *level;
      continue;
    }
    auto fd = parse_fd(argv[i + 1]);
    if (!fd) return {};
    if (name == "--node-fd") {
      options.node_fd = *fd;
    } else if (name == "--control-fd") {
      options.control_fd = *fd;
    } else {
      return {};
    }
  }
  if (options.node_fd < 0 || options.control_fd < 0 || options.node_fd == options.control_fd) return {};
  return options;
}

bool is_listening(int fd) {
  int listening = 0;
  socklen_t size = sizeof listening;
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening == 1;
}

async::Task<void> serve(link::Link& link, boost::asio::signal_set& signals, const obs::Log& log) {
  link.start();
  log.info("serving");
  co_await signals.async_wait(boost::asio::use_awaitable);
  log.info("stopping");
  co_await link.stop();
}

int run(const Options& options) {
  SystemClock clock;
  obs::Log log(STDERR_FILENO, "link", clock, options.level);
  auto fail = [&](const Error& error) {
    log.error("cannot_start", {{"reason", error.reason}, {"message", error.message}});
    return 1;
  };
  for (int fd : {options.node_fd, options.control_fd}) {
    if (!is_listening(fd))
      return fail(make_error(Code::kInvalidArgument, "link.bad_descriptor",
                             "descriptor " + std::to_string(fd) + " is no listening socket"));
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  const int keep[] = {options.node_fd, options.control_fd};
  if (auto given_up = link::give_up_privileges(keep); !given_up.ok()) return fail(given_up.error());
  if (::geteuid() == 0)
    log.warning("running_as_root",
                {{"message", "space up gives link its own user; this one was started otherwise"}});

  async::Loop loop(1);
  os::SystemRandom random;
  link::Link link(loop.get_executor(), random, log, os::Fd(options.node_fd), os::Fd(options.control_fd));
  // Makes a pipe, which the filter would refuse; nothing is read before the filter is there.
  boost::asio::signal_set signals(loop, SIGTERM, SIGINT);
  if (auto confined = link::confine(); !confined.ok()) return fail(confined.error());
  boost::asio::co_spawn(loop, serve(link, signals, log), [](std::exception_ptr error) {
    if (error) std::rethrow_exception(error);
  });
  loop.run();
  log.info("stopped");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  auto options = parse(argc, argv);
  if (!options) {
    std::fputs("usage: space-link --node-fd N --control-fd M [--log-level debug|info|warning|error]\n",
               stderr);
    return 2;
  }
  return run(*options);
}
