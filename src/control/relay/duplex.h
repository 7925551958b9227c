// SPDX-License-Identifier: Apache-2.0
#pragma once
// A WebSocket and a guest call tied together: what one side sends goes to the other, in its own form, with at
// most one message in hand each way. Who reads slowly slows the writer at the other end down; nothing piles
// up here.
//
// Ends: the guest ends the call (what it said last is sent, then the WebSocket is closed in order); the
// client leaves (the call is given up: a command goes on in the guest, to be attached again); the client
// sends nonsense (an error frame, then close). An error is always said in a frame before the close.
//
// Shared ownership: two pumps and the handler use it, and the handler may be cancelled first.
// Posture: hostile-guest on one side, tenant-input on the other.

#include <memory>

#include "control/upstream/link_client.h"
#include "lib/async/task.h"
#include "lib/http/websocket.h"

namespace space::control::relay {

class Duplex {
 public:
  Duplex(std::unique_ptr<http::WebSocket> socket, upstream::Opened opened)
      : socket_(std::move(socket)), opened_(std::move(opened)) {}
  virtual ~Duplex() = default;
  Duplex(const Duplex&) = delete;
  Duplex& operator=(const Duplex&) = delete;

  // Relays until one of the ends above.
  static async::Task<void> run(std::shared_ptr<Duplex> self);

 protected:
  enum class Next { kGoOn, kDone };
  // What the guest sent. kDone: it was the last. Errors: those of sending to the client.
  virtual async::Task<Result<Next>> on_guest(upstream::GuestEvent event) = 0;
  // What the client sent. Errors: invalid_argument for nonsense; others: the call is over.
  virtual async::Task<Result<void>> on_client(http::WebSocketMessage message) = 0;

  http::WebSocket& socket() { return *socket_; }
  upstream::GuestCall& guest() { return opened_.call; }
  // kDone after an error frame.
  async::Task<Result<Next>> fail(Error error);

 private:
  static async::Task<void> from_guest(std::shared_ptr<Duplex> self);
  static async::Task<void> from_client(std::shared_ptr<Duplex> self);
  // The client's side is over: nobody waits for the guest any more.
  void leave();

  std::unique_ptr<http::WebSocket> socket_;
  upstream::Opened opened_;
  bool client_left_ = false;
  bool nonsense_ = false;
};

// For streams that can't begin: says why in a frame and closes.
async::Task<void> refuse(http::WebSocket& socket, Error error);

}  // namespace space::control::relay
