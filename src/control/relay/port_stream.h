// SPDX-License-Identifier: Apache-2.0
#pragma once
// A TCP connection into the guest, and a directory being watched, over WebSockets.

#include "control/relay/duplex.h"

namespace space::control::relay {

// Server: {"type":"connected"}, binary frames, {"type":"end"}. Client: binary frames, {"type":"end"} to
// half-close.
class PortStream final : public Duplex {
 public:
  using Duplex::Duplex;

 private:
  async::Task<Result<Next>> on_guest(upstream::GuestEvent event) override;
  async::Task<Result<void>> on_client(http::WebSocketMessage message) override;
  bool ended_ = false;
};

// Server: {"type":"watching"}, {"type":"event",...}. The client only listens, and closes.
class WatchStream final : public Duplex {
 public:
  using Duplex::Duplex;

 private:
  async::Task<Result<Next>> on_guest(upstream::GuestEvent event) override;
  async::Task<Result<void>> on_client(http::WebSocketMessage message) override;
};

}  // namespace space::control::relay
