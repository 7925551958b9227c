// SPDX-License-Identifier: Apache-2.0
#pragma once
// An HTTP/1.1 server on a listening TCP socket: keep-alive, streaming bodies, WebSocket upgrade, limits.
//
// What clients may cost: max_connections sockets, a head of max_header_bytes each, and one read buffer of 64
// KiB. Time limits are idle limits, so that a slow transfer of any size goes through: a head must arrive
// within header_time, a body may pause for body_idle, and a client that takes none of what is sent for
// stall_limit is disconnected (judged by the kernel's count of acknowledged bytes).
//
// Resource type; one loop. Posture: hostile-network.

#include <chrono>
#include <functional>
#include <list>
#include <memory>

#include "lib/async/event.h"
#include "lib/async/task.h"
#include "lib/async/task_scope.h"
#include "lib/base/result.h"
#include "lib/http/exchange.h"
#include "lib/os/fd.h"

namespace space::http {

struct ServerOptions {
  std::size_t max_connections = 1024;
  std::uint32_t max_header_bytes = 64u << 10;
  std::chrono::milliseconds header_time = std::chrono::seconds(30);
  std::chrono::milliseconds keep_alive = std::chrono::seconds(75);
  std::chrono::milliseconds body_idle = std::chrono::seconds(60);
  std::chrono::milliseconds stall_limit = std::chrono::seconds(60);
  std::chrono::milliseconds ping_every = std::chrono::seconds(20);
  std::string server_name = "space";
};

// Answers one request. Runs in the server's scope and is cancelled when the server stops.
using Handler = std::function<async::Task<void>(Exchange&)>;
// How an error that the server finds by itself is put for the client.
using ErrorPage = std::function<Response(const Error&)>;

class Server {
 public:
  Server(const async::Executor& executor, os::Fd listener, Handler handler, ErrorPage error_page,
         ServerOptions options = {});
  ~Server();

  void start();
  // Accepts no more connections; open ones go on, without keep-alive.
  void stop_accepting();
  // stop_accepting(), then waits at most `grace` for the requests under way, then breaks what is left.
  async::Task<void> stop(std::chrono::milliseconds grace);
  [[nodiscard]] std::size_t connections() const { return connections_.size(); }

 private:
  async::Task<void> accept_loop();
  async::Task<void> serve(std::shared_ptr<internal::Connection> connection);
  async::Task<void> sweep_loop();
  void refuse(os::Fd socket);

  async::Executor executor_;
  os::Fd listener_;
  Handler handler_;
  ErrorPage error_page_;
  ServerOptions options_;
  bool stopping_ = false;
  std::list<std::shared_ptr<internal::Connection>> connections_;
  async::Event changed_;
  async::TaskScope accepting_;
  async::TaskScope scope_;
};

}  // namespace space::http
