// SPDX-License-Identifier: Apache-2.0
#pragma once
// The API's listening socket.

#include <string>

#include "lib/base/result.h"
#include "lib/os/fd.h"

namespace space::supervise {

struct Listener {
  os::Fd fd;
  std::string url;        // of the bound address, with the host as it was written
  std::string local_url;  // by which this machine reaches it, also when it listens on every address
  bool loopback = false;
};

// `address` is "HOST:PORT" or "[IPV6]:PORT"; port 0 takes any. A port in use is tried again for
// `patience_ms`, since the one who held it may be on its way out. Errors: supervise.usage,
// supervise.port_in_use, supervise.listen.
Result<Listener> listen_tcp(const std::string& address, int patience_ms);

}  // namespace space::supervise
