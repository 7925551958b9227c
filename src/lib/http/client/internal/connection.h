// SPDX-License-Identifier: Apache-2.0
#pragma once
// One TCP connection of the client: connect, write bytes, read one response. Resource type; one loop.

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>

#include "lib/async/task.h"
#include "lib/http/client/client.h"

namespace space::http::client {

class Connection {
 public:
  explicit Connection(boost::asio::ip::tcp::socket socket) : socket_(std::move(socket)) {}

  // Is the connection open, with nothing of the server waiting in it? What an idle connection must be to be
  // used again.
  [[nodiscard]] bool reusable();
  async::Task<Result<void>> write(ByteView data);
  // Reads one response, the interim ones skipped. `sink` may be null.
  async::Task<Result<Response>> read_response(bool head_request, BodySink* sink, std::size_t max_body_bytes);
  // After read_response: may another request follow on this connection?
  [[nodiscard]] bool keep() const { return keep_; }
  void mark_unusable() { keep_ = false; }
  boost::asio::ip::tcp::socket take_socket() { return std::move(socket_); }

 private:
  boost::asio::ip::tcp::socket socket_;
  boost::beast::flat_buffer buffer_;
  bool keep_ = false;
};

// Resolves and connects; tries every address. Errors: http.connection_refused, http.unreachable.
async::Task<Result<boost::asio::ip::tcp::socket>> connect(Endpoint endpoint, std::chrono::milliseconds limit);

Error broken_stream(const std::string& what);

}  // namespace space::http::client
