// SPDX-License-Identifier: Apache-2.0
#include "control/relay/port_stream.h"

#include "control/api/parse.h"
#include "control/api/render.h"

namespace space::control::relay {

async::Task<Result<Duplex::Next>> PortStream::on_guest(upstream::GuestEvent event) {
  if (auto* data = std::get_if<rpc::Data>(&event)) {
    SPACE_CO_CHECK_OK(co_await socket().send_binary({}, data->bytes));
    co_return Next::kGoOn;
  }
  if (std::holds_alternative<guestapi::ReplyT>(event)) {
    SPACE_CO_CHECK_OK(co_await socket().send_text(api::plain_frame("connected")));
    co_return Next::kGoOn;
  }
  const auto& end = std::get<rpc::End>(event);
  if (!end.status.ok()) co_return co_await fail(end.status.error());
  SPACE_CO_CHECK_OK(co_await socket().send_text(api::plain_frame("end")));
  co_return Next::kDone;
}

async::Task<Result<void>> PortStream::on_client(http::WebSocketMessage message) {
  auto bad = [](const char* what) { return make_error(Code::kInvalidArgument, "control.bad_frame", what); };
  if (ended_) co_return bad("nothing may follow the end of a connection");
  if (message.kind == http::WebSocketMessage::Kind::kBinary)
    co_return co_await guest().send_data(as_bytes(message.data));
  SPACE_CO_TRY(auto frame, api::parse_client_frame(message.data));
  if (frame.kind != api::ClientFrame::Kind::kEnd)
    co_return bad("a connection knows binary frames and {\"type\":\"end\"}");
  ended_ = true;
  guest().end();
  co_return Result<void>();
}

async::Task<Result<Duplex::Next>> WatchStream::on_guest(upstream::GuestEvent event) {
  if (auto* reply = std::get_if<guestapi::ReplyT>(&event)) {
    if (reply->body.AsWatching() != nullptr)
      SPACE_CO_CHECK_OK(co_await socket().send_text(api::plain_frame("watching")));
    if (auto* seen = reply->body.AsWatchEvent())
      SPACE_CO_CHECK_OK(co_await socket().send_text(api::watch_event_frame(*seen)));
    co_return Next::kGoOn;
  }
  if (auto* end = std::get_if<rpc::End>(&event)) {
    if (!end->status.ok()) co_return co_await fail(end->status.error());
    co_return co_await fail(
        make_error(Code::kAborted, "control.watch_ended", "the guest ended the watch; begin it again"));
  }
  co_return Next::kGoOn;
}

async::Task<Result<void>> WatchStream::on_client(http::WebSocketMessage) {
  co_return make_error(Code::kInvalidArgument, "control.bad_frame", "a watch takes no messages");
}

}  // namespace space::control::relay
