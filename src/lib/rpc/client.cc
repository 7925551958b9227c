// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/client.h"

#include "lib/os/unix_socket.h"

namespace space::rpc {
namespace {
constexpr auto kRetryEvery = std::chrono::milliseconds(20);
}

Client::Client(const async::Executor& executor, os::Random& random, std::string name, Connect connect,
               std::chrono::milliseconds patience)
    : executor_(executor),
      random_(random),
      name_(std::move(name)),
      connect_(std::move(connect)),
      patience_(patience),
      changed_(executor) {}

Client::Connect Client::to_path(std::string path) {
  return [path = std::move(path)] { return os::connect_unix(path); };
}

async::Task<Result<Connection*>> Client::connection() {
  auto deadline = std::chrono::steady_clock::now() + patience_;
  while (connecting_) co_await changed_.wait();
  if (connection_ && connection_->alive()) co_return connection_.get();
  connecting_ = true;
  // Another coroutine must find the flag down whatever happens here, cancellation included.
  struct Lower {
    Client& client;
    ~Lower() {
      client.connecting_ = false;
      client.changed_.notify_all();
    }
  } lower{*this};
  connection_.reset();
  Error last;
  do {
    auto socket = connect_();
    if (socket.ok()) {
      auto fresh = Connection::ask(executor_, std::move(*socket), random_);
      auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      auto attached = co_await fresh->wait_attached(std::max(left, std::chrono::milliseconds(1)));
      if (attached.ok()) {
        connection_ = std::move(fresh);
        co_return connection_.get();
      }
      last = std::move(attached).error();
    } else {
      last = std::move(socket).error();
      if (!last.retryable() && last.code != Code::kNotFound) break;
    }
    co_await async::sleep_for(kRetryEvery);
  } while (std::chrono::steady_clock::now() < deadline);
  co_return make_error(Code::kUnavailable, "rpc.unreachable", "cannot reach " + name_ + ": " + last.message);
}

async::Task<Result<Call>> Client::start(Bytes request, std::vector<os::Fd> fds) {
  SPACE_CO_TRY(Connection * live, co_await connection());
  co_return live->start(std::move(request), std::move(fds));
}

async::Task<Result<Bytes>> Client::unary(Bytes request, std::chrono::milliseconds limit,
                                         std::vector<os::Fd> fds) {
  SPACE_CO_TRY(Connection * live, co_await connection());
  co_return co_await live->unary(std::move(request), limit, std::move(fds));
}

async::Task<void> Client::stop() {
  if (connection_) co_await connection_->stop();
}

}  // namespace space::rpc
