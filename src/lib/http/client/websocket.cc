// SPDX-License-Identifier: Apache-2.0
#include "lib/http/client/websocket.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/websocket/stream.hpp>

#include "lib/async/deadline.h"
#include "lib/async/event.h"
#include "lib/async/task_scope.h"
#include "lib/http/client/internal/connection.h"
#include "lib/http/client/internal/websocket_state.h"

namespace space::http::client {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using asio::ip::tcp;
using async::Task;
using SteadyTime = std::chrono::steady_clock::time_point;

namespace {
constexpr std::chrono::seconds kHandshakeLimit{30};
constexpr std::chrono::seconds kCloseLimit{2};
}  // namespace

struct WebSocket::State {
  explicit State(tcp::socket socket)
      : stream(std::move(socket)), writable(stream.get_executor()), scope(stream.get_executor()) {}

  websocket::stream<tcp::socket> stream;
  beast::flat_buffer buffer;
  bool reading = false;
  bool writing = false;
  bool silent = false;  // the server was silent for too long
  SteadyTime heard = std::chrono::steady_clock::now();
  async::Event writable;
  async::TaskScope scope;

  void drop() {
    boost::system::error_code ignored;
    beast::get_lowest_layer(stream).close(ignored);
  }
};

namespace {

Task<void> keep_alive(std::shared_ptr<WebSocket::State> state) {
  for (;;) {
    co_await async::sleep_for(kKeepAlive);
    if (state->reading && std::chrono::steady_clock::now() - state->heard > kServerSilence) {
      state->silent = true;
      state->drop();
      co_return;
    }
    boost::system::error_code error;
    co_await state->stream.async_pong({}, asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;  // the reader sees it too
  }
}

Task<Result<void>> handshake(WebSocket::State& state, websocket::response_type& answer, std::string host,
                             std::string target) {
  boost::system::error_code error;
  co_await state.stream.async_handshake(answer, host, target,
                                        asio::redirect_error(asio::use_awaitable, error));
  if (error && error != websocket::error::upgrade_declined) co_return broken_stream(error.message());
  co_return Result<void>();
}

Task<Result<void>> say_close(WebSocket::State& state) {
  boost::system::error_code ignored;
  co_await state.stream.async_close(websocket::close_code::normal,
                                    asio::redirect_error(asio::use_awaitable, ignored));
  co_return Result<void>();
}

}  // namespace

Task<Result<Upgrade>> open_websocket(tcp::socket socket, Endpoint endpoint, std::string target,
                                     std::vector<Header> headers) {
  auto state = std::make_shared<WebSocket::State>(std::move(socket));
  state->stream.set_option(websocket::stream_base::decorator([&headers](websocket::request_type& request) {
    for (const auto& header : headers) request.set(header.name, header.value);
  }));
  state->stream.read_message_max(kMaxMessageBytes);
  state->stream.auto_fragment(false);
  websocket::response_type answer;
  SPACE_CO_CHECK_OK(co_await async::with_deadline(handshake(*state, answer, endpoint.authority(), target),
                                                  kHandshakeLimit, "http.broken_stream",
                                                  "the server doesn't answer the WebSocket request"));
  Upgrade upgrade;
  if (answer.result() != beast::http::status::switching_protocols) {
    upgrade.declined.status = answer.result_int();
    for (const auto& field : answer)
      upgrade.declined.headers.push_back({std::string(field.name_string()), std::string(field.value())});
    upgrade.declined.body = answer.body();
    co_return std::move(upgrade);
  }
  // A weak pointer would do; State outlives its own scope's tasks because each of them holds it.
  std::weak_ptr<WebSocket::State> weak = state;
  state->stream.control_callback([weak](websocket::frame_type, beast::string_view) {
    if (auto alive = weak.lock()) alive->heard = std::chrono::steady_clock::now();
  });
  state->scope.spawn(keep_alive(state));
  upgrade.socket = std::make_unique<WebSocket>(std::move(state));
  co_return std::move(upgrade);
}

WebSocket::WebSocket(std::shared_ptr<State> state) : state_(std::move(state)) {}

WebSocket::~WebSocket() {
  state_->scope.cancel_all();
  state_->drop();
}

Task<Result<std::optional<WebSocket::Message>>> WebSocket::read() {
  auto state = state_;
  state->buffer.consume(state->buffer.size());
  state->reading = true;
  state->heard = std::chrono::steady_clock::now();
  boost::system::error_code error;
  co_await state->stream.async_read(state->buffer, asio::redirect_error(asio::use_awaitable, error));
  state->reading = false;
  if (error == websocket::error::closed) co_return std::optional<Message>();
  if (state->silent) co_return broken_stream("the server has been silent for more than a minute");
  if (error) co_return broken_stream(error == asio::error::eof ? "it was closed" : error.message());
  auto data = state->buffer.cdata();
  Message message;
  message.binary = state->stream.got_binary();
  message.data = ByteView(static_cast<const std::byte*>(data.data()), data.size());
  co_return std::optional<Message>(message);
}

Task<Result<void>> WebSocket::send(ByteView data, bool binary) {
  auto state = state_;
  while (state->writing) co_await state->writable.wait();
  state->writing = true;
  state->stream.binary(binary);
  boost::system::error_code error;
  co_await state->stream.async_write(asio::buffer(data.data(), data.size()),
                                     asio::redirect_error(asio::use_awaitable, error));
  state->writing = false;
  state->writable.notify_all();
  if (error) co_return broken_stream(error.message());
  co_return Result<void>();
}

bool WebSocket::sending() const {
  return state_->writing;
}
Task<Result<void>> WebSocket::send_text(std::string_view text) {
  return send(as_bytes(text), false);
}
Task<Result<void>> WebSocket::send_binary(ByteView data) {
  return send(data, true);
}

Task<void> WebSocket::close() {
  auto state = state_;
  state->scope.cancel_all();
  (co_await async::with_deadline(say_close(*state), kCloseLimit, "http.broken_stream", "no answer to close"))
      .ignore("closing anyway");
  state->drop();
}

}  // namespace space::http::client
