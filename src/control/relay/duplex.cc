// SPDX-License-Identifier: Apache-2.0
#include "control/relay/duplex.h"

#include <boost/asio/this_coro.hpp>

#include "control/api/render.h"
#include "lib/async/task_scope.h"

namespace space::control::relay {

using http::WebSocket;
using http::WebSocketMessage;

async::Task<void> refuse(WebSocket& socket, Error error) {
  if (!(co_await socket.send_text(api::error_frame(error))).ok()) co_return;
  co_await socket.close(WebSocket::CloseCode::kNormal);
}

async::Task<Result<Duplex::Next>> Duplex::fail(Error error) {
  if (error.reason == "rpc.connection_lost" || error.reason == "rpc.reset") {
    error = make_error(Code::kUnavailable, "control.guest_unreachable",
                       "the connection to the sandbox was lost; attach again");
  }
  SPACE_CO_CHECK_OK(co_await socket_->send_text(api::error_frame(error)));
  co_return Next::kDone;
}

void Duplex::leave() {
  client_left_ = true;
  opened_.call.reset();
}

async::Task<void> Duplex::from_guest(std::shared_ptr<Duplex> self) {
  upstream::GuestEvent event = std::move(self->opened_.first);
  for (;;) {
    auto next = co_await self->on_guest(std::move(event));
    if (!next.ok()) {
      self->leave();
      co_return;
    }
    if (*next == Next::kDone || self->client_left_) co_return;
    auto more = co_await self->opened_.call.next();
    if (self->client_left_) co_return;
    if (!more.ok()) {
      if (!(co_await self->fail(more.error())).ok()) self->leave();
      co_return;
    }
    event = std::move(*more);
  }
}

async::Task<void> Duplex::from_client(std::shared_ptr<Duplex> self) {
  for (;;) {
    auto message = co_await self->socket_->receive();
    if (!message.ok() || message->kind == WebSocketMessage::Kind::kClosed) {
      self->leave();
      co_return;
    }
    if (self->client_left_) co_return;
    auto taken = co_await self->on_client(std::move(*message));
    if (taken.ok()) continue;
    if (taken.error().code != Code::kInvalidArgument) co_return;  // the guest's side says what happened
    self->nonsense_ = true;
    (co_await self->fail(taken.error())).ignore("the client may have gone already");
    self->leave();
    co_return;
  }
}

async::Task<void> Duplex::run(std::shared_ptr<Duplex> self) {
  async::TaskScope scope(co_await boost::asio::this_coro::executor);
  // When this is cancelled, the pumps must not go on; they own what they use until they have noticed.
  struct Cut {
    Duplex& duplex;
    async::TaskScope& scope;
    bool armed = true;
    ~Cut() {
      if (!armed) return;
      duplex.leave();
      duplex.socket_->abort();
      scope.cancel_all();
    }
  } cut{*self, scope};
  scope.spawn(from_client(self));
  co_await from_guest(self);
  if (!self->client_left_ || self->nonsense_) {
    co_await self->socket_->close(self->nonsense_ ? WebSocket::CloseCode::kProtocolError
                                                  : WebSocket::CloseCode::kNormal);
  }
  cut.armed = false;
  co_await scope.stop();
}

}  // namespace space::control::relay
