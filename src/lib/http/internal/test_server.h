// SPDX-License-Identifier: Apache-2.0
#pragma once
// A server on a loopback port with a loop and thread of its own, and a blocking raw client. For tests of this
// folder.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <string>
#include <thread>

#include "lib/base/check.h"
#include "lib/http/server.h"

namespace space::http {

inline os::Fd listen_loopback(std::uint16_t& port) {
  os::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  // SAFETY: sockaddr_in is a sockaddr for AF_INET.
  auto* any = reinterpret_cast<sockaddr*>(&address);
  SPACE_CHECK(::bind(fd.get(), any, size) == 0 && ::listen(fd.get(), 64) == 0 &&
              ::getsockname(fd.get(), any, &size) == 0);
  port = ntohs(address.sin_port);
  return fd;
}

class TestServer {
 public:
  explicit TestServer(Handler handler, ServerOptions options = {}) {
    server_ = std::make_unique<Server>(
        loop_.get_executor(), listen_loopback(port), std::move(handler),
        [](const Error& error) {
          Response page;
          page.status = error.reason == "http.header_too_large" ? 431
                        : error.code == Code::kInternal         ? 500
                                                                : 400;
          page.body = error.reason;
          return page;
        },
        std::move(options));
    server_->start();
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~TestServer() {
    stop(std::chrono::milliseconds(0));
    guard_.reset();
    thread_.join();
  }
  void stop(std::chrono::milliseconds grace) {
    if (stopped_) return;
    stopped_ = true;
    boost::asio::co_spawn(loop_, server_->stop(grace), boost::asio::use_future).get();
  }
  std::size_t connections() {
    std::promise<std::size_t> count;
    boost::asio::post(loop_, [&] { count.set_value(server_->connections()); });
    return count.get_future().get();
  }

  std::uint16_t port = 0;

 private:
  async::Loop loop_;
  boost::asio::executor_work_guard<async::Loop::executor_type> guard_{loop_.get_executor()};
  std::unique_ptr<Server> server_;
  bool stopped_ = false;
  std::thread thread_;
};

class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval limit{20, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    // SAFETY: sockaddr_in is a sockaddr for AF_INET.
    SPACE_CHECK(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  void send(std::string_view text) {
    while (!text.empty()) {
      ssize_t put = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (put <= 0) return;  // the server has cut the connection: the test looks at what it answered
      text.remove_prefix(static_cast<std::size_t>(put));
    }
  }
  // Until the text has been seen or the stream ended; what was read so far.
  std::string read_until(std::string_view mark) {
    while (seen_.find(mark) == std::string::npos && more()) {
    }
    return seen_;
  }
  std::string read_to_end() {
    while (more()) {
    }
    return seen_;
  }
  void forget() { seen_.clear(); }
  void half_close() { ::shutdown(fd_.get(), SHUT_WR); }
  void close() { fd_.reset(); }
  // Leaves with a reset instead of an orderly end.
  void slam() {
    linger hard{1, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    fd_.reset();
  }
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  bool more() {
    char buffer[65536];
    ssize_t got = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    seen_.append(buffer, static_cast<std::size_t>(got));
    return true;
  }
  os::Fd fd_;
  std::string seen_;
};

}  // namespace space::http
