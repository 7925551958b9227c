// SPDX-License-Identifier: Apache-2.0
#include "lib/http/exchange.h"

#include <sys/socket.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/read.hpp>

#include "lib/base/check.h"
#include "lib/http/internal/connection.h"

namespace space::http {
namespace asio = boost::asio;
namespace beast = boost::beast;
using internal::Incoming;

namespace {

Error gone() {
  return make_error(Code::kAborted, "http.client_gone", "the client closed the connection");
}

std::string head_text(const Response& response, const Incoming& incoming,
                      std::optional<std::uint64_t> length) {
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + " " +
                     std::string(status_text(response.status)) + "\r\n";
  for (const auto& [name, value] : response.headers.all())
    head.append(name).append(": ").append(value).append("\r\n");
  if (response.status != 204 && length)
    head.append("Content-Length: ").append(std::to_string(*length)).append("\r\n");
  if (incoming.chunked) head += "Transfer-Encoding: chunked\r\n";
  if (incoming.close_after) head += "Connection: close\r\n";
  return head += "\r\n";
}

}  // namespace

Exchange::Exchange(internal::Connection& connection, internal::Incoming& incoming)
    : connection_(connection), incoming_(incoming) {}
Exchange::~Exchange() = default;

const Request& Exchange::request() const {
  return incoming_.request;
}

bool Exchange::has_body() const {
  const auto& parser = incoming_.parser;
  return parser.chunked() || parser.content_length().value_or(0) > 0;
}

async::Task<Result<std::size_t>> Exchange::read_plain(std::span<std::byte> out) {
  auto& parser = incoming_.parser;
  if (incoming_.continue_due) {
    incoming_.continue_due = false;
    if (incoming_.answer == Incoming::Answer::kNone && has_body()) {
      SPACE_CO_CHECK_OK(co_await connection_.write_all(as_bytes("HTTP/1.1 100 Continue\r\n\r\n"), {}, {}));
    }
  }
  while (!parser.is_done()) {
    auto& body = parser.get().body();
    body.data = out.data();
    body.size = out.size();
    body.more = true;
    beast::error_code error;
    connection_.stream.expires_after(connection_.options.body_idle);
    co_await beast::http::async_read_some(connection_.stream, connection_.buffer, parser,
                                          asio::redirect_error(asio::use_awaitable, error));
    connection_.stream.expires_never();
    std::size_t got = out.size() - body.size;
    if (error == beast::error::timeout) {
      incoming_.close_after = true;
      co_return make_error(Code::kDeadlineExceeded, "http.body_idle", "the request's body stopped arriving");
    }
    if (error && error != beast::http::error::need_buffer) {
      incoming_.close_after = true;
      bool malformed =
          error.category() == beast::http::make_error_code(beast::http::error::need_buffer).category() &&
          error != beast::http::error::end_of_stream && error != beast::http::error::partial_message;
      if (!malformed) co_return gone();
      co_return make_error(Code::kInvalidArgument, "http.malformed_body",
                           "the request's body is not valid HTTP: " + error.message());
    }
    if (got > 0) co_return got;
  }
  co_return std::size_t{0};
}

async::Task<Result<std::size_t>> Exchange::read_body(std::span<std::byte> out) {
  std::string_view encoding = request().headers.get("Content-Encoding");
  if (encoding.empty() || equals_ignoring_case(encoding, "identity")) co_return co_await read_plain(out);
  if (!equals_ignoring_case(encoding, "gzip")) {
    co_return make_error(Code::kInvalidArgument, "http.unsupported_encoding",
                         "bodies may come plain or with Content-Encoding: gzip");
  }
  if (!incoming_.gunzip) incoming_.gunzip = std::make_unique<Gunzip>();
  for (;;) {
    ByteView packed = ByteView(incoming_.packed).subspan(incoming_.packed_from);
    SPACE_CO_TRY(auto step, incoming_.gunzip->step(packed, out));
    incoming_.packed_from += step.consumed;
    if (step.produced > 0) co_return step.produced;
    if (step.consumed > 0) continue;
    incoming_.packed.resize(internal::kPieceBytes);
    incoming_.packed_from = 0;
    auto got = co_await read_plain(incoming_.packed);
    incoming_.packed.resize(got.ok() ? *got : 0);
    if (!got.ok()) co_return std::move(got).error();
    if (*got > 0) continue;
    if (!incoming_.gunzip->complete()) {
      co_return make_error(Code::kInvalidArgument, "http.malformed_gzip",
                           "the compressed body ends too early");
    }
    co_return std::size_t{0};
  }
}

async::Task<Result<std::string>> Exchange::read_all(std::size_t limit) {
  auto too_large = [&] {
    return make_error(Code::kInvalidArgument, "http.body_too_large",
                      "the body is larger than " + std::to_string(limit) + " bytes");
  };
  if (incoming_.parser.content_length().value_or(0) > limit) co_return too_large();
  std::string text;
  Bytes piece(std::min(limit + 1, internal::kPieceBytes));
  for (;;) {
    SPACE_CO_TRY(std::size_t got, co_await read_body(piece));
    if (got == 0) co_return text;
    if (text.size() + got > limit) co_return too_large();
    text += as_text(ByteView(piece).first(got));
  }
}

async::Task<Result<void>> Exchange::respond(Response response) {
  SPACE_CHECK(incoming_.answer == Incoming::Answer::kNone);
  incoming_.answer = Incoming::Answer::kDone;
  if (!incoming_.parser.is_done()) incoming_.close_after = true;
  bool silent = request().method == "HEAD" || response.status == 204;
  std::string head = head_text(response, incoming_, response.body.size());
  co_return co_await connection_.write_all(as_bytes(head), silent ? ByteView() : as_bytes(response.body), {});
}

async::Task<Result<void>> Exchange::begin(Response response, std::optional<std::uint64_t> length) {
  SPACE_CHECK(incoming_.answer == Incoming::Answer::kNone);
  incoming_.answer = Incoming::Answer::kBegun;
  if (!incoming_.parser.is_done()) incoming_.close_after = true;
  incoming_.no_body = request().method == "HEAD" || response.status == 204;
  bool old_client = incoming_.parser.get().version() < 11;
  incoming_.chunked = !length && !old_client && !incoming_.no_body;
  if (!length && old_client) incoming_.close_after = true;
  incoming_.length_left = length.value_or(0);
  std::string head = head_text(response, incoming_, length);
  co_return co_await connection_.write_all(as_bytes(head), {}, {});
}

async::Task<Result<void>> Exchange::write(ByteView data) {
  SPACE_CHECK(incoming_.answer == Incoming::Answer::kBegun);
  if (data.empty() || incoming_.no_body) co_return Result<void>();
  if (!incoming_.chunked) {
    if (incoming_.parser.get().version() >= 11) {
      SPACE_CHECK(data.size() <= incoming_.length_left);
      incoming_.length_left -= data.size();
    }
    co_return co_await connection_.write_all(data, {}, {});
  }
  std::array<char, 20> size{};
  int digits = std::snprintf(size.data(), size.size(), "%zx\r\n", data.size());
  co_return co_await connection_.write_all(
      as_bytes(std::string_view(size.data(), static_cast<std::size_t>(digits))), data, as_bytes("\r\n"));
}

async::Task<Result<void>> Exchange::finish() {
  SPACE_CHECK(incoming_.answer == Incoming::Answer::kBegun);
  if (!incoming_.no_body && !incoming_.chunked && incoming_.length_left > 0) {
    co_return make_error(Code::kInternal, "http.short_answer", "fewer bytes were written than announced");
  }
  incoming_.answer = Incoming::Answer::kDone;
  if (!incoming_.chunked) co_return Result<void>();
  co_return co_await connection_.write_all(as_bytes("0\r\n\r\n"), {}, {});
}

bool Exchange::begun() const {
  return incoming_.answer != Incoming::Answer::kNone;
}

async::Task<void> Exchange::client_gone() {
  auto& socket = connection_.stream.socket();
  for (;;) {
    beast::error_code error;
    co_await socket.async_wait(asio::ip::tcp::socket::wait_read,
                               asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
    char byte;
    ssize_t got = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) co_return;
    // A pipelined request: the client is there. Look again now and then.
    if (got > 0) co_await async::sleep_for(std::chrono::seconds(1));
  }
}

bool Exchange::wants_websocket() const {
  return beast::websocket::is_upgrade(incoming_.parser.get());
}

async::Task<Result<std::unique_ptr<WebSocket>>> Exchange::upgrade() {
  SPACE_CHECK(incoming_.answer == Incoming::Answer::kNone);
  const Headers& headers = request().headers;
  if (headers.get("Sec-WebSocket-Key").size() != 24 || headers.get("Sec-WebSocket-Version") != "13" ||
      connection_.buffer.size() != 0) {
    co_return make_error(Code::kInvalidArgument, "http.bad_upgrade",
                         "the WebSocket handshake lacks Sec-WebSocket-Key or version 13");
  }
  incoming_.answer = Incoming::Answer::kUpgraded;
  auto state = std::make_shared<internal::WebSocketState>(connection_);
  state->stream.read_message_max(kMaxWebSocketMessage);
  // Messages are small enough to be one frame each; splitting them would only cost.
  state->stream.auto_fragment(false);
  state->stream.set_option(beast::websocket::stream_base::timeout{
      std::chrono::seconds(30), beast::websocket::stream_base::none(), false});
  std::string name = connection_.options.server_name;
  state->stream.set_option(beast::websocket::stream_base::decorator(
      [name](beast::websocket::response_type& response) { response.set(beast::http::field::server, name); }));
  beast::error_code error;
  connection_.stream.expires_never();
  co_await state->stream.async_accept(incoming_.parser.get(),
                                      asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return gone();
  connection_.websocket = state;
  co_return std::make_unique<WebSocket>(std::move(state));
}

}  // namespace space::http
