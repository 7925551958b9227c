// SPDX-License-Identifier: Apache-2.0
#include "lib/http/websocket.h"

#include <array>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "lib/http/internal/connection.h"

namespace space::http {
namespace asio = boost::asio;
namespace beast = boost::beast;

namespace {

Error gone() {
  return make_error(Code::kAborted, "http.client_gone", "the client closed the connection");
}

// Beast allows one write at a time; whoever holds this is the one.
class Turn {
 public:
  explicit Turn(internal::WebSocketState& state) : state_(state) { state_.sending = true; }
  ~Turn() {
    state_.sending = false;
    state_.changed.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  internal::WebSocketState& state_;
};

async::Task<Result<void>> send(std::shared_ptr<internal::WebSocketState> state, bool binary, ByteView head,
                               ByteView body) {
  while (state->sending) co_await state->changed.wait();
  Turn turn(*state);
  state->stream.binary(binary);
  std::array<asio::const_buffer, 2> parts{asio::const_buffer(head.data(), head.size()),
                                          asio::const_buffer(body.data(), body.size())};
  beast::error_code error;
  co_await state->stream.async_write(parts, asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return gone();
  co_return Result<void>();
}

}  // namespace

WebSocket::WebSocket(std::shared_ptr<internal::WebSocketState> state) : state_(std::move(state)) {}
WebSocket::~WebSocket() {
  state_->connection->abort();
}

void WebSocket::abort() {
  state_->connection->abort();
}

async::Task<Result<WebSocketMessage>> WebSocket::receive() {
  auto state = state_;
  beast::error_code error;
  co_await state->stream.async_read(state->incoming, asio::redirect_error(asio::use_awaitable, error));
  if (error == beast::websocket::error::closed) co_return WebSocketMessage{};
  if (error) co_return gone();
  WebSocketMessage message;
  message.kind = state->stream.got_text() ? WebSocketMessage::Kind::kText : WebSocketMessage::Kind::kBinary;
  auto data = state->incoming.cdata();
  message.data.assign(static_cast<const char*>(data.data()), data.size());
  state->incoming.consume(state->incoming.size());
  // A large message must not keep its memory for the rest of the connection.
  if (state->incoming.capacity() > internal::kPieceBytes) state->incoming.shrink_to_fit();
  co_return message;
}

async::Task<Result<void>> WebSocket::send_text(std::string_view text) {
  return send(state_, false, as_bytes(text), {});
}

async::Task<Result<void>> WebSocket::send_binary(ByteView head, ByteView body) {
  return send(state_, true, head, body);
}

async::Task<void> WebSocket::close(CloseCode code) {
  auto state = state_;
  while (state->sending) co_await state->changed.wait();
  Turn turn(*state);
  state->connection->closing = true;  // from here on the sweep bounds the wait
  beast::error_code ignored;
  co_await state->stream.async_close(static_cast<beast::websocket::close_code>(code),
                                     asio::redirect_error(asio::use_awaitable, ignored));
}

}  // namespace space::http
