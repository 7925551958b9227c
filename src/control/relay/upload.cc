// SPDX-License-Identifier: Apache-2.0
#include "control/relay/file_transfer.h"
#include "lib/async/deadline.h"

namespace space::control::relay {
namespace {

using std::chrono::milliseconds;
constexpr std::size_t kPieceBytes = 64u << 10;
// A guest that takes none of what it is sent, or does not finish after the last byte (it syncs then), for
// this long is given up.
constexpr milliseconds kGuestLimit = std::chrono::minutes(2);

// What the guest says at the end, after success or in the middle of the body.
async::Task<Result<guestapi::FileInfoT>> conclusion(upstream::GuestCall* guest) {
  std::optional<guestapi::FileInfoT> written;
  for (;;) {
    SPACE_CO_TRY(auto event, co_await guest->next());
    if (auto* reply = std::get_if<guestapi::ReplyT>(&event)) {
      if (auto* info = reply->body.AsFileInfo()) written = *info;
    }
    if (auto* end = std::get_if<rpc::End>(&event)) {
      if (!end->status.ok()) co_return end->status.error();
      if (!written)
        co_return make_error(Code::kDataLoss, "wire.unexpected_message",
                             "the guest did not say what it wrote");
      co_return std::move(*written);
    }
  }
}

async::Task<Result<guestapi::FileInfoT>> conclude(upstream::GuestCall* guest) {
  return async::with_deadline(conclusion(guest), kGuestLimit, "control.guest_not_answering",
                              "the guest did not finish the file in time");
}

async::Task<Result<guestapi::FileInfoT>> transfer(api::Call& call, upstream::GuestCall* guest) {
  Bytes piece(kPieceBytes);
  for (;;) {
    // An error here resets the call on the way out, and the guest forgets the half-written file.
    SPACE_CO_TRY(std::size_t got, co_await call.exchange.read_body(piece));
    if (got == 0) break;
    auto sent =
        co_await async::with_deadline(guest->send_data(ByteView(piece).first(got)), kGuestLimit,
                                      "control.guest_not_answering", "the guest takes no more of the file");
    if (sent.ok()) continue;
    if (sent.error().reason == "rpc.call_over") co_return co_await conclude(guest);
    co_return std::move(sent).error();
  }
  guest->end();
  co_return co_await conclude(guest);
}

Error explained(Error error) {
  if (error.reason != "rpc.connection_lost" && error.reason != "rpc.reset") return error;
  return make_error(Code::kUnavailable, "control.guest_unreachable",
                    "the connection to the sandbox was lost; the file is as it was; try again");
}

}  // namespace

async::Task<void> upload(api::Call& call, meta::SessionRow session, guestapi::WriteFileT target) {
  // Somebody must be there before a body of any size is asked for.
  auto there = co_await call.services.link.hello(session.sandbox);
  if (!there.ok()) co_return co_await api::reply_error(call, there.error());
  guestapi::RequestT request;
  request.body.Set(std::move(target));
  auto guest = co_await call.services.link.start(session.sandbox, request, kGuestLimit);
  if (!guest.ok()) co_return co_await api::reply_error(call, guest.error());
  auto written = co_await transfer(call, &*guest);
  if (!written.ok()) {
    guest->reset();
    co_return co_await api::reply_error(call, explained(std::move(written).error()));
  }
  co_await api::reply(call, 201, api::file_json(*written));
}

}  // namespace space::control::relay
