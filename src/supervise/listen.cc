// SPDX-License-Identifier: Apache-2.0
#include "supervise/listen.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "lib/base/bytes.h"

namespace space::supervise {
namespace {

constexpr int kBacklog = 1024;

Error usage(const std::string& message) {
  return make_error(Code::kInvalidArgument, "supervise.usage", message);
}

struct HostPort {
  std::string host;
  std::string port;
};

Result<HostPort> split(const std::string& address) {
  auto bad = [&] {
    return usage("--listen must be HOST:PORT, such as 127.0.0.1:7350, not \"" + escape(address) + "\"");
  };
  HostPort parts;
  std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return bad();
  parts.port = address.substr(colon + 1);
  parts.host = address.substr(0, colon);
  if (parts.host.size() > 2 && parts.host.front() == '[' && parts.host.back() == ']') {
    parts.host = parts.host.substr(1, parts.host.size() - 2);
  } else if (parts.host.empty() || parts.host.find(':') != std::string::npos) {
    return bad();
  }
  unsigned number = 0;
  auto [end, error] = std::from_chars(parts.port.data(), parts.port.data() + parts.port.size(), number);
  if (error != std::errc() || end != parts.port.data() + parts.port.size() || number > 65535) return bad();
  return parts;
}

struct FreeInfo {
  void operator()(addrinfo* info) const { ::freeaddrinfo(info); }
};

Result<os::Fd> bind_once(const addrinfo& info) {
  os::Fd fd(::socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno_error(errno, "supervise.listen", "create socket");
  int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (info.ai_family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(fd.get(), info.ai_addr, info.ai_addrlen) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    return errno_error(errno, errno == EADDRINUSE ? "supervise.port_in_use" : "supervise.listen", "listen");
  }
  return fd;
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, address, sizeof v4);
    return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, address, sizeof v6);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

bool is_any(const std::string& host) {
  return host == "0.0.0.0" || host == "::" || host == "*";
}

Result<std::string> bound_port(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  // SAFETY: the socket API's own convention.
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    return errno_error(errno, "supervise.listen", "read the bound address");
  in_port_t port = 0;  // at the same place in both families
  std::memcpy(&port, reinterpret_cast<const char*>(&bound) + offsetof(sockaddr_in, sin_port),
              sizeof port);  // SAFETY: within bound
  return std::to_string(ntohs(port));
}

}  // namespace

Result<Listener> listen_tcp(const std::string& address, int patience_ms) {
  SPACE_TRY(auto parts, split(address));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  std::string host = parts.host == "*" ? "0.0.0.0" : parts.host;
  if (int failed = ::getaddrinfo(host.c_str(), parts.port.c_str(), &hints, &found); failed != 0) {
    return usage("cannot listen on \"" + escape(host) + "\": " + ::gai_strerror(failed));
  }
  std::unique_ptr<addrinfo, FreeInfo> info(found);
  Result<os::Fd> fd = bind_once(*info);
  for (int waited = 0; !fd.ok() && fd.error().reason == "supervise.port_in_use" && waited < patience_ms;
       waited += 100) {
    ::poll(nullptr, 0, 100);
    fd = bind_once(*info);
  }
  if (!fd.ok() && fd.error().reason == "supervise.port_in_use") {
    return make_error(
        Code::kFailedPrecondition, "supervise.port_in_use",
        "the address " + address + " is in use by another program; choose another with --listen");
  }
  if (!fd.ok()) return std::move(fd).error().context("cannot listen on " + address);
  Listener listener;
  listener.fd = std::move(fd).value();
  listener.loopback = is_loopback(info->ai_addr);
  SPACE_TRY(std::string port, bound_port(listener.fd.get()));
  auto url = [&](const std::string& name) {
    return "http://" + (name.find(':') == std::string::npos ? name : "[" + name + "]") + ":" + port;
  };
  listener.url = url(host);
  listener.local_url = url(!is_any(host) ? host : info->ai_family == AF_INET6 ? "::1" : "127.0.0.1");
  return listener;
}

}  // namespace space::supervise
