// SPDX-License-Identifier: Apache-2.0
#pragma once
// A client's connection and the request under way on it. Beast parses; answers are written by hand, since
// they are simpler than Beast's serializers and must stream.

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <memory>
#include <optional>

#include "lib/async/event.h"
#include "lib/base/clock.h"
#include "lib/http/exchange.h"
#include "lib/http/gunzip.h"
#include "lib/http/server.h"

namespace space::http::internal {

// The pieces that a body is read and decompressed in.
inline constexpr std::size_t kPieceBytes = 64u << 10;

struct WebSocketState {
  explicit WebSocketState(Connection& owner);
  boost::beast::websocket::stream<boost::beast::tcp_stream&> stream;
  std::shared_ptr<Connection> connection;
  boost::beast::flat_buffer incoming;
  async::Event changed;
  bool sending = false;
  bool pinging = false;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(const async::Executor& executor, os::Fd socket, int family, const ServerOptions& options);

  // Closes the socket; every operation under way ends with an error.
  void abort();
  // Called regularly: breaks the connection when its client takes nothing, pings.
  void sweep(Monotonic now);
  async::Task<Result<void>> write_all(ByteView head, ByteView body, ByteView tail);

  boost::beast::tcp_stream stream;
  boost::beast::flat_buffer buffer;
  const ServerOptions& options;
  std::weak_ptr<WebSocketState> websocket;
  bool idle = true;  // waits for a request
  // A close message was sent and nothing more will be; the client has this long after taking all of it.
  bool closing = false;

 private:
  std::uint64_t acknowledged_ = 0;
  Monotonic progress_at_;
  Monotonic pinged_at_;
};

// State of the request under way.
struct Incoming {
  boost::beast::http::request_parser<boost::beast::http::buffer_body> parser;
  Request request;
  std::unique_ptr<Gunzip> gunzip;
  Bytes packed;  // compressed bytes read and not yet decompressed: packed[packed_from..)
  std::size_t packed_from = 0;
  bool continue_due = false;  // the client waits for 100 Continue

  enum class Answer : std::uint8_t { kNone, kBegun, kDone, kUpgraded };
  Answer answer = Answer::kNone;
  bool chunked = false;
  bool close_after = false;
  bool no_body = false;           // HEAD, 204
  std::uint64_t length_left = 0;  // of a streamed answer with a length
};

// Reads a head. Errors: http.header_too_large, http.malformed_request, http.malformed_target;
// http.client_gone when the client closed, or was disconnected for its silence.
async::Task<Result<std::unique_ptr<Incoming>>> read_head(Connection& connection);

}  // namespace space::http::internal
