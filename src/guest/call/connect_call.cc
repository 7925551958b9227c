// SPDX-License-Identifier: Apache-2.0
#include "guest/call/connect_call.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace space::guest {
namespace {

constexpr std::size_t kReadBytes = 64u << 10;

int begin_connect(int socket, int family, std::uint16_t port) {
  if (family == AF_INET) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return ::connect(socket, reinterpret_cast<sockaddr*>(&address),
                     sizeof address);  // SAFETY: the API's convention
  }
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  address.sin6_addr = in6addr_loopback;
  return ::connect(socket, reinterpret_cast<sockaddr*>(&address),
                   sizeof address);  // SAFETY: the API's convention
}

}  // namespace

void ConnectCall::start() {
  if (port_ == 0)
    return finish(field_error("port", "guest.malformed_port", "a port is a number from 1 to 65535"));
  timer_ = services_.loop.after(kConnectTimeout, [this] {
    timer_ = 0;
    close();
    finish(make_error(Code::kDeadlineExceeded, "guest.connect_timeout",
                      "nothing in the sandbox accepted the connection in time"));
  });
  try_family(AF_INET);
}

void ConnectCall::try_family(int family) {
  socket_ = os::Fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_) return next_or_fail(family, errno);
  if (begin_connect(socket_.get(), family, port_) == 0) return connected();
  if (errno != EINPROGRESS) return next_or_fail(family, errno);
  watched_ = true;
  services_.loop.watch(socket_.get(), EPOLLOUT, [this, family](std::uint32_t) { on_connected(family); });
}

void ConnectCall::on_connected(int family) {
  set_reading(false);
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return next_or_fail(family, error);
  connected();
}

void ConnectCall::next_or_fail(int family, int error) {
  socket_.reset();
  if (family == AF_INET) return try_family(AF_INET6);
  services_.loop.cancel(std::exchange(timer_, 0));
  finish(make_error(
      Code::kUnavailable, "guest.connection_refused",
      errno_error(error, "", "nothing listens on port " + std::to_string(port_) + " in the sandbox")
          .message));
}

void ConnectCall::connected() {
  services_.loop.cancel(std::exchange(timer_, 0));
  connected_ = true;
  int on = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  os::Fd writing(::fcntl(socket_.get(), F_DUPFD_CLOEXEC, 3));
  if (!writing) {
    close();
    return finish(errno_error(errno, "guest.too_many_open_files", "open a connection"));
  }
  send(guestapi::ConnectedT{});
  to_server_.open(std::move(writing));
  set_reading(true);
  if (host_ended_) on_host_end();
}

void ConnectCall::on_data(std::uint8_t channel, ByteView data) {
  bool wanted = channel == 0 && !finishing() && (!connected_ || to_server_.open());
  if (!wanted) return consumed(data.size());
  to_server_.write(data);
}

void ConnectCall::on_host_end() {
  host_ended_ = true;
  if (!connected_) return;
  to_server_.finish([this] {
    ::shutdown(socket_.get(), SHUT_WR);
    return true;
  });
}

void ConnectCall::set_reading(bool wanted) {
  if (wanted == watched_ || !socket_) return;
  watched_ = wanted;
  if (wanted) {
    services_.loop.watch(socket_.get(), EPOLLIN, [this](std::uint32_t) { on_readable(); });
  } else {
    services_.loop.unwatch(socket_.get());
  }
}

void ConnectCall::on_readable() {
  from_server_.resize(kReadBytes);
  sent_ = 0;
  ssize_t got = ::read(socket_.get(), from_server_.data(), from_server_.size());
  int error = errno;
  from_server_.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  if (got < 0 && (error == EAGAIN || error == EINTR)) return;
  set_reading(false);  // until this has been sent
  if (got <= 0) {
    server_ended_ = true;
    if (got < 0)
      outcome_ = make_error(Code::kUnavailable, "guest.connection_reset",
                            "the server in the sandbox broke the connection");
  }
  want_pump();
}

bool ConnectCall::pump_more() {
  if (!connected_ || finishing()) return false;
  if (sent_ < from_server_.size()) {
    std::size_t took = send_data(1, ByteView(from_server_).subspan(sent_));
    sent_ += took;
    if (sent_ < from_server_.size()) return took != 0;
  }
  if (!server_ended_) {
    set_reading(true);
    return false;
  }
  finish(std::exchange(outcome_, {}));
  close();
  return false;
}

void ConnectCall::close() {
  services_.loop.cancel(std::exchange(timer_, 0));
  to_server_.close();
  set_reading(false);
  socket_.reset();
}

}  // namespace space::guest
