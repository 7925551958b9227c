// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>

#include <array>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/websocket/rfc6455.hpp>

#include "lib/http/internal/connection.h"
#include "lib/http/internal/socket_progress.h"

namespace space::http::internal {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace {

// A client that has everything has this long to answer a close message.
constexpr auto kCloseTime = std::chrono::seconds(10);

asio::ip::tcp protocol(int family) {
  return family == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4();
}

}  // namespace

WebSocketState::WebSocketState(Connection& owner)
    : stream(owner.stream),
      connection(owner.shared_from_this()),
      incoming(kMaxWebSocketMessage + 1024),
      changed(owner.stream.get_executor()) {}

Connection::Connection(const async::Executor& executor, os::Fd socket, int family,
                       const ServerOptions& server_options)
    : stream(asio::ip::tcp::socket(executor, protocol(family), socket.release())),
      buffer(std::size_t{server_options.max_header_bytes} + kPieceBytes),
      options(server_options),
      progress_at_(std::chrono::steady_clock::now()),
      pinged_at_(progress_at_) {
  beast::error_code ignored;
  stream.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
}

void Connection::abort() {
  stream.close();
}

void Connection::sweep(Monotonic now) {
  if (!stream.socket().is_open()) return;
  auto progress = socket_progress(stream.socket().native_handle());
  if (!progress) return;
  if (progress->closed) return abort();
  bool moved = progress->acknowledged != acknowledged_;
  acknowledged_ = progress->acknowledged;
  bool waits = progress->unsent || closing;
  if (moved || !waits) progress_at_ = now;
  auto limit = progress->unsent ? options.stall_limit
                                : std::min<std::chrono::milliseconds>(options.stall_limit, kCloseTime);
  if (now - progress_at_ >= limit) return abort();
  auto socket = websocket.lock();
  if (!socket || closing || socket->pinging || now - pinged_at_ < options.ping_every) return;
  pinged_at_ = now;
  socket->pinging = true;
  socket->stream.async_ping({}, [socket](beast::error_code) { socket->pinging = false; });
}

async::Task<Result<void>> Connection::write_all(ByteView head, ByteView body, ByteView tail) {
  std::array<asio::const_buffer, 3> parts{asio::const_buffer(head.data(), head.size()),
                                          asio::const_buffer(body.data(), body.size()),
                                          asio::const_buffer(tail.data(), tail.size())};
  beast::error_code error;
  stream.expires_never();  // sweep() judges progress
  co_await asio::async_write(stream, parts, asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return make_error(Code::kAborted, "http.client_gone", "the client closed the connection");
  co_return Result<void>();
}

async::Task<Result<std::unique_ptr<Incoming>>> read_head(Connection& connection) {
  auto incoming = std::make_unique<Incoming>();
  auto& parser = incoming->parser;
  parser.header_limit(connection.options.max_header_bytes);
  parser.body_limit(boost::none);
  beast::error_code error;
  if (connection.buffer.size() == 0) {
    // Between requests: wait for the first byte without counting it as the time of a head.
    connection.idle = true;
    connection.stream.expires_after(connection.options.keep_alive);
    auto room = connection.buffer.prepare(4096);
    std::size_t got =
        co_await connection.stream.async_read_some(room, asio::redirect_error(asio::use_awaitable, error));
    connection.idle = false;
    if (error) co_return make_error(Code::kAborted, "http.client_gone", "the client closed the connection");
    connection.buffer.commit(got);
  }
  connection.stream.expires_after(connection.options.header_time);
  co_await beast::http::async_read_header(connection.stream, connection.buffer, parser,
                                          asio::redirect_error(asio::use_awaitable, error));
  connection.stream.expires_never();
  namespace bh = beast::http;
  if (error == bh::error::header_limit || error == bh::error::buffer_overflow) {
    co_return make_error(Code::kInvalidArgument, "http.header_too_large",
                         "the request's head is larger than 64 KiB");
  }
  if (error.category() == bh::make_error_code(bh::error::end_of_stream).category() &&
      error != bh::error::end_of_stream && error != bh::error::partial_message) {
    co_return make_error(Code::kInvalidArgument, "http.malformed_request",
                         "the request is not valid HTTP: " + error.message());
  }
  if (error) co_return make_error(Code::kAborted, "http.client_gone", "the client closed the connection");

  const auto& message = parser.get();
  Request& request = incoming->request;
  request.method = std::string(message.method_string());
  request.target = std::string(message.target());
  for (const auto& field : message) request.headers.add_received(field.name_string(), field.value());
  incoming->close_after = !message.keep_alive();
  incoming->continue_due = equals_ignoring_case(request.headers.get("Expect"), "100-continue");
  auto target = parse_target(request.target);
  if (!target.ok()) co_return std::move(target).error();
  request.parsed = std::move(*target);
  co_return incoming;
}

}  // namespace space::http::internal
