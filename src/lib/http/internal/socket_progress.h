// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the kernel knows about a TCP connection's sending side. Apart, because linux/tcp.h and the C library's
// header of the same structures can't be included together.

#include <cstdint>
#include <optional>

namespace space::http::internal {

struct SocketProgress {
  std::uint64_t acknowledged = 0;  // bytes that the peer's kernel has taken since the connection began
  bool unsent = false;             // bytes wait, for the network or for an acknowledgement
  bool closed = false;             // the peer reset the connection, though no read may have noticed
};

// Nothing when `socket` is no TCP socket.
std::optional<SocketProgress> socket_progress(int socket);

}  // namespace space::http::internal
