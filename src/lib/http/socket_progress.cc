// SPDX-License-Identifier: Apache-2.0
#include "lib/http/internal/socket_progress.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace space::http::internal {

std::optional<SocketProgress> socket_progress(int socket) {
  constexpr unsigned kTcpClose = 7;  // TCP_CLOSE of the kernel
  tcp_info info{};
  socklen_t size = sizeof info;
  int waiting = 0;
  // SAFETY: both calls fill the object they are given, within its size.
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
      ::ioctl(socket, SIOCOUTQ, &waiting) != 0) {
    return std::nullopt;
  }
  return SocketProgress{info.tcpi_bytes_acked, waiting > 0, info.tcpi_state == kTcpClose};
}

}  // namespace space::http::internal
