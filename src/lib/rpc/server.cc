// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/server.h"

#include <sys/socket.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace space::rpc {
namespace asio = boost::asio;

Server::Server(const async::Executor& executor, os::Fd listener, CallHandler handler,
               std::size_t max_connections)
    : executor_(executor),
      listener_(std::move(listener)),
      handler_(std::move(handler)),
      max_connections_(max_connections),
      scope_(executor) {}

void Server::start() {
  scope_.spawn(accept_loop());
}

async::Task<void> Server::accept_loop() {
  asio::posix::stream_descriptor waiter(executor_, ::dup(listener_.get()));
  for (;;) {
    os::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      if (connections_.size() >= max_connections_) continue;
      connections_.push_back(Connection::answer(executor_, std::move(socket), handler_));
      scope_.spawn(serve(std::prev(connections_.end())));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE) {
      co_await async::sleep_for(std::chrono::milliseconds(50));  // wait for a descriptor to become free
      continue;
    }
    boost::system::error_code error;
    co_await waiter.async_wait(asio::posix::stream_descriptor::wait_read,
                               asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
  }
}

async::Task<void> Server::serve(std::list<std::unique_ptr<Connection>>::iterator connection) {
  co_await (*connection)->closed();
  co_await (*connection)->stop();
  connections_.erase(connection);
}

async::Task<void> Server::stop() {
  co_await scope_.stop();
  for (auto& connection : connections_) co_await connection->stop();
  connections_.clear();
}

}  // namespace space::rpc
