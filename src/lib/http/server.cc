// SPDX-License-Identifier: Apache-2.0
#include "lib/http/server.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "lib/base/clock.h"
#include "lib/http/internal/connection.h"

namespace space::http {
namespace asio = boost::asio;
namespace beast = boost::beast;
using internal::Connection;
using internal::Incoming;

namespace {

// What a client may still send after an early answer before its connection is cut anyway.
constexpr std::size_t kLingerBytes = 16u << 20;
constexpr auto kLingerTime = std::chrono::seconds(2);

// Closes so that the client can read the answer although it is still sending: half-close, then discard.
async::Task<void> linger(Connection& connection) {
  beast::error_code error;
  connection.stream.socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
  connection.stream.expires_after(kLingerTime);
  Bytes scrap(internal::kPieceBytes);
  for (std::size_t total = 0; !error && total < kLingerBytes;) {
    total += co_await connection.stream.async_read_some(asio::buffer(scrap),
                                                        asio::redirect_error(asio::use_awaitable, error));
  }
}

unsigned fallback_status(const Error& error) {
  return error.reason == "http.header_too_large" ? 431 : 400;
}

}  // namespace

Server::Server(const async::Executor& executor, os::Fd listener, Handler handler, ErrorPage error_page,
               ServerOptions options)
    : executor_(executor),
      listener_(std::move(listener)),
      handler_(std::move(handler)),
      error_page_(std::move(error_page)),
      options_(std::move(options)),
      changed_(executor),
      accepting_(executor),
      scope_(executor) {}

Server::~Server() = default;

void Server::start() {
  accepting_.spawn(accept_loop());
  scope_.spawn(sweep_loop());
}

void Server::stop_accepting() {
  stopping_ = true;
  accepting_.cancel_all();
  listener_.reset();
  for (auto& connection : connections_) {
    if (connection->idle) connection->abort();
  }
}

async::Task<void> Server::stop(std::chrono::milliseconds grace) {
  stop_accepting();
  co_await accepting_.stop();
  auto deadline = std::chrono::steady_clock::now() + grace;
  while (!connections_.empty()) {
    if (!co_await changed_.wait_until(deadline)) break;
  }
  co_await scope_.stop();
  connections_.clear();
}

void Server::refuse(os::Fd socket) {
  Response page = error_page_(
      make_error(Code::kUnavailable, "http.too_many_connections", "the server has too many connections"));
  std::string text =
      "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Type: "
      "application/json\r\nContent-Length: " +
      std::to_string(page.body.size()) + "\r\n\r\n" + page.body;
  [[maybe_unused]] ssize_t ignored =
      ::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(socket.get(), SHUT_WR);
}

async::Task<void> Server::accept_loop() {
  // The listener may be shared with another process (an inherited descriptor): non-blocking from here on.
  asio::posix::stream_descriptor waiter(executor_, ::dup(listener_.get()));
  waiter.non_blocking(true);
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  // SAFETY: getsockname writes at most `size` bytes of a sockaddr.
  int family = ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0
                   ? address.ss_family
                   : AF_INET;
  while (!stopping_) {
    os::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      if (connections_.size() >= options_.max_connections) {
        refuse(std::move(socket));
        continue;
      }
      auto connection = std::make_shared<Connection>(executor_, std::move(socket), family, options_);
      connections_.push_back(connection);
      scope_.spawn(serve(std::move(connection)));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      co_await async::sleep_for(std::chrono::milliseconds(50));  // until something is closed
      continue;
    }
    if (errno == ECONNABORTED || errno == EINTR) continue;
    beast::error_code error;
    co_await waiter.async_wait(asio::posix::stream_descriptor::wait_read,
                               asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
  }
}

async::Task<void> Server::sweep_loop() {
  auto every = std::clamp<std::chrono::milliseconds>(std::min(options_.stall_limit, options_.ping_every) / 4,
                                                     std::chrono::milliseconds(10), std::chrono::seconds(5));
  for (;;) {
    co_await async::sleep_for(every);
    auto now = std::chrono::steady_clock::now();
    for (auto& connection : connections_) connection->sweep(now);
  }
}

async::Task<void> Server::serve(std::shared_ptr<Connection> connection) {
  // Whatever happens here, cancellation included, the connection leaves the list.
  struct Leave {
    Server& server;
    Connection* connection;
    ~Leave() {
      connection->abort();
      server.connections_.remove_if([this](const auto& other) { return other.get() == connection; });
      server.changed_.notify_all();
    }
  } leave{*this, connection.get()};

  for (;;) {
    auto head = co_await internal::read_head(*connection);
    if (!head.ok()) {
      if (head.error().reason == "http.client_gone") co_return;
      Response page = error_page_(head.error());
      if (page.status < 400) page.status = fallback_status(head.error());
      std::string text =
          "HTTP/1.1 " + std::to_string(page.status) + " " + std::string(status_text(page.status)) + "\r\n";
      for (const auto& [name, value] : page.headers.all())
        text.append(name).append(": ").append(value).append("\r\n");
      text +=
          "Content-Length: " + std::to_string(page.body.size()) + "\r\nConnection: close\r\n\r\n" + page.body;
      (co_await connection->write_all(as_bytes(text), {}, {}))
          .ignore("the client sent nonsense; it may have gone");
      co_await linger(*connection);
      co_return;
    }
    std::unique_ptr<Incoming> incoming = std::move(*head);
    if (stopping_) incoming->close_after = true;
    {
      Exchange exchange(*connection, *incoming);
      co_await handler_(exchange);
      if (incoming->answer == Incoming::Answer::kNone) {
        Response page =
            error_page_(make_error(Code::kInternal, "http.no_answer", "the server gave no answer"));
        (co_await exchange.respond(std::move(page))).ignore("the connection ends below");
      }
    }
    // A streamed answer that was not finished, or an upgraded connection: nothing more can be said here.
    if (incoming->answer != Incoming::Answer::kDone) co_return;
    if (!incoming->parser.is_done()) {
      co_await linger(*connection);
      co_return;
    }
    if (incoming->close_after || stopping_) {
      beast::error_code ignored;
      connection->stream.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
      co_return;
    }
  }
}

}  // namespace space::http
