// SPDX-License-Identifier: Apache-2.0
#pragma once
// Accepts connections on a listening Unix socket and answers their calls. Resource type, one loop.

#include <list>
#include <memory>

#include "lib/async/task_scope.h"
#include "lib/os/fd.h"
#include "lib/rpc/connection.h"

namespace space::rpc {

class Server {
 public:
  // At most `max_connections` at once; further ones are closed at once.
  Server(const async::Executor& executor, os::Fd listener, CallHandler handler,
         std::size_t max_connections = 64);
  void start();
  // Refuses new connections, closes the open ones, cancels their handlers and waits for them.
  async::Task<void> stop();

 private:
  async::Task<void> accept_loop();
  async::Task<void> serve(std::list<std::unique_ptr<Connection>>::iterator connection);

  async::Executor executor_;
  os::Fd listener_;
  CallHandler handler_;
  std::size_t max_connections_;
  std::list<std::unique_ptr<Connection>> connections_;
  async::TaskScope scope_;
};

}  // namespace space::rpc
