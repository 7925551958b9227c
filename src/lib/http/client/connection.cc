// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>

#include "lib/async/deadline.h"
#include "lib/http/client/internal/connection.h"

namespace space::http::client {
namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;

namespace {

constexpr std::size_t kReadBytes = 64u << 10;
constexpr std::uint32_t kMaxHeadBytes = 64u << 10;

// Lets the kernel notice a peer that is gone: after 30 s of silence, three probes 10 s apart.
void set_options(tcp::socket& socket) {
  boost::system::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(tcp::socket::keep_alive(true), ignored);
  using Seconds = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPIDLE>;
  using Interval = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPINTVL>;
  using Count = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPCNT>;
  socket.set_option(Seconds(30), ignored);
  socket.set_option(Interval(10), ignored);
  socket.set_option(Count(3), ignored);
}

async::Task<Result<tcp::socket>> connect_any(Endpoint endpoint) {
  auto executor = co_await asio::this_coro::executor;
  boost::system::error_code error;
  tcp::resolver resolver(executor);
  auto addresses = co_await resolver.async_resolve(endpoint.host, endpoint.port,
                                                   asio::redirect_error(asio::use_awaitable, error));
  if (error)
    co_return make_error(Code::kUnavailable, "http.unreachable",
                         "cannot find " + endpoint.host + ": " + error.message());
  tcp::socket socket(executor);
  co_await asio::async_connect(socket, addresses, asio::redirect_error(asio::use_awaitable, error));
  if (error == asio::error::connection_refused) {
    co_return make_error(Code::kUnavailable, "http.connection_refused",
                         "nothing answers at " + endpoint.url());
  }
  if (error)
    co_return make_error(Code::kUnavailable, "http.unreachable",
                         "cannot connect to " + endpoint.url() + ": " + error.message());
  set_options(socket);
  co_return socket;
}

Response head_from(const beast::http::response_parser<beast::http::buffer_body>& parser) {
  Response response;
  response.status = parser.get().result_int();
  for (const auto& field : parser.get()) {
    response.headers.push_back({std::string(field.name_string()), std::string(field.value())});
  }
  if (auto length = parser.content_length()) response.content_length = *length;
  return response;
}

}  // namespace

Error broken_stream(const std::string& what) {
  return make_error(Code::kUnavailable, "http.broken_stream", "the connection to the server broke: " + what);
}

async::Task<Result<tcp::socket>> connect(Endpoint endpoint, std::chrono::milliseconds limit) {
  std::string late = endpoint.url() + " doesn't answer";
  auto outcome =
      co_await async::with_deadline(connect_any(std::move(endpoint)), limit, "http.unreachable", late);
  if (!outcome.ok() && outcome.error().code == Code::kDeadlineExceeded) {
    co_return make_error(Code::kUnavailable, "http.unreachable", outcome.error().message);
  }
  co_return std::move(outcome);
}

bool Connection::reusable() {
  if (!keep_ || buffer_.size() != 0) return false;
  char byte;
  return ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
         (errno == EAGAIN || errno == EWOULDBLOCK);
}

async::Task<Result<void>> Connection::write(ByteView data) {
  boost::system::error_code error;
  co_await asio::async_write(socket_, asio::buffer(data.data(), data.size()),
                             asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return broken_stream(error.message());
  co_return Result<void>();
}

async::Task<Result<Response>> Connection::read_response(bool head_request, BodySink* sink,
                                                        std::size_t max_body_bytes) {
  namespace http = beast::http;
  keep_ = false;
  boost::system::error_code error;
  std::optional<http::response_parser<http::buffer_body>> parser;
  do {
    parser.emplace();
    parser->header_limit(kMaxHeadBytes);
    parser->body_limit(boost::none);
    parser->skip(head_request);
    co_await http::async_read_header(socket_, buffer_, *parser,
                                     asio::redirect_error(asio::use_awaitable, error));
    if (error)
      co_return broken_stream(error == http::error::end_of_stream ? "it was closed without an answer"
                                                                  : error.message());
  } while (parser->get().result_int() < 200);

  Response response = head_from(*parser);
  if (!parser->is_done() && !parser->content_length() && !parser->chunked()) {
    co_return broken_stream("the answer has neither a length nor chunks, so its end can't be known");
  }
  BodySink* taker = response.ok() ? sink : nullptr;
  if (taker != nullptr) taker->head(response);
  std::vector<std::byte> chunk(kReadBytes);
  while (!parser->is_done()) {
    auto& body = parser->get().body();
    body.data = chunk.data();
    body.size = chunk.size();
    body.more = true;
    co_await http::async_read_some(socket_, buffer_, *parser,
                                   asio::redirect_error(asio::use_awaitable, error));
    if (error == http::error::need_buffer) error = {};
    ByteView got(chunk.data(), chunk.size() - body.size);
    if (!got.empty() && taker != nullptr) {
      SPACE_CO_CHECK_OK(co_await taker->write(got));
    } else if (!got.empty()) {
      if (response.body.size() + got.size() > max_body_bytes) {
        co_return make_error(
            Code::kResourceExhausted, "http.too_large",
            "the server's answer is longer than " + std::to_string(max_body_bytes) + " bytes");
      }
      response.body.append(as_text(got));
    }
    if (error)
      co_return broken_stream(error == http::error::partial_message ? "it ended in the middle of an answer"
                                                                    : error.message());
  }
  keep_ = parser->get().keep_alive();
  co_return response;
}

}  // namespace space::http::client
