// SPDX-License-Identifier: Apache-2.0
#include "bench/platform.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>

#include "bench/figures.h"
#include "lib/os/file.h"

namespace space::bench {
namespace {

// A loopback port that was free a moment ago.
Result<unsigned> free_port() {
  os::Fd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);  // SAFETY: the socket API's own convention
  if (::bind(probe.get(), generic, size) != 0 || ::getsockname(probe.get(), generic, &size) != 0) {
    return errno_error(errno, "bench.port", "find a free port");
  }
  return ntohs(address.sin_port);
}

}  // namespace

Result<std::unique_ptr<Platform>> Platform::start() {
  std::unique_ptr<Platform> platform(new Platform());
  char pattern[] = "/tmp/space-bench-XXXXXX";
  if (::mkdtemp(pattern) == nullptr) return errno_error(errno, "bench.directory", "make a directory");
  platform->directory_ = pattern;
  SPACE_TRY(unsigned port, free_port());
  SPACE_TRY(platform->up_,
            Child::start({program_directory() + "/space", "up", "--data", platform->directory_ + "/data",
                          "--listen", "127.0.0.1:" + std::to_string(port)},
                         platform->directory_ + "/up.log"));
  for (;;) {
    auto line = platform->up_->read_line(std::chrono::seconds(60));
    if (!line.ok()) {
      auto log = os::read_file(platform->directory_ + "/up.log");
      return std::move(line).error().context(
          "space up: " + (log.ok() ? log->substr(log->size() > 600 ? log->size() - 600 : 0) : ""));
    }
    if (!line->starts_with("ready ")) continue;
    platform->url_ = line->substr(6);
    break;
  }
  SPACE_TRY(platform->key_, os::read_file(platform->directory_ + "/data/admin.key"));
  while (!platform->key_.empty() && platform->key_.back() == '\n') platform->key_.pop_back();
  return platform;
}

Platform::~Platform() {
  up_.reset();
  os::remove_tree(directory_).ignore("a temporary directory");
}

Result<boost::json::value> Platform::create_session(boost::json::object body) {
  return run<boost::json::value>(
      [&](cli::Api& api) { return api.change("POST", "/sessions", boost::json::value(body)); });
}

Result<void> Platform::kill_session(const std::string& id) {
  auto gone = run<boost::json::value>(
      [&](cli::Api& api) { return api.change("DELETE", cli::session_target(id), std::nullopt); });
  if (!gone.ok()) return std::move(gone).error();
  return {};
}

}  // namespace space::bench
