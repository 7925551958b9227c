// SPDX-License-Identifier: Apache-2.0
#include "control/upstream/link_client.h"

#include "api/link_generated.h"
#include "lib/async/deadline.h"
#include "lib/wire/message.h"

namespace space::control::upstream {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kRetryEvery{50};
// How long the answer to "are you there?" holds.
constexpr milliseconds kAliveFor{300};
// What link may need on top of the guest's own time to answer.
constexpr milliseconds kMargin = std::chrono::seconds(3);

Error unreachable(const Error& cause) {
  return make_error(Code::kUnavailable, "control.guest_unreachable",
                    "the sandbox can't be reached at the moment; try again: " + cause.message);
}

// May the request be sent again, because it surely did not reach a guest?
bool never_arrived(const Error& error) {
  return error.reason == "link.no_such_sandbox" || error.reason == "rpc.unreachable" ||
         error.reason == "link.not_attached";
}

async::Task<Result<GuestEvent>> next_of(rpc::Call* call) {
  SPACE_CO_TRY(rpc::CallEvent event, co_await call->next());
  if (auto* message = std::get_if<rpc::Message>(&event)) {
    SPACE_CO_TRY(auto reply, wire::unpack<guestapi::ReplyT>(message->bytes));
    co_return GuestEvent(std::move(reply));
  }
  if (auto* data = std::get_if<rpc::Data>(&event)) co_return GuestEvent(std::move(*data));
  co_return GuestEvent(std::get<rpc::End>(std::move(event)));
}

}  // namespace

async::Task<Result<GuestEvent>> GuestCall::next() {
  return next_of(&call_);
}

async::Task<Result<GuestEvent>> GuestCall::next_within(milliseconds limit) {
  return async::with_deadline(next_of(&call_), limit, "control.guest_not_answering",
                              "the guest did not answer in time");
}

async::Task<Result<void>> GuestCall::send_control(guestapi::ControlT control) {
  return call_.send_message(wire::pack(control));
}

LinkClient::LinkClient(const async::Executor& executor, os::Random& random,
                       const rpc::Client::Connect& connect, LinkOptions options)
    : options_(options) {
  for (std::size_t i = 0; i < options_.connections; ++i) {
    clients_.push_back(
        std::make_unique<rpc::Client>(executor, random, "the link", connect, options_.patience));
  }
}

rpc::Client& LinkClient::next_client() {
  return *clients_[turn_++ % clients_.size()];
}

async::Task<Result<GuestCall>> LinkClient::start(SandboxId sandbox, const guestapi::RequestT& request,
                                                 milliseconds answer_limit) {
  Bytes packed = wire::pack(request);
  linkapi::GuestCallT envelope;
  envelope.sandbox = sandbox.str();
  const auto* begin = reinterpret_cast<const std::uint8_t*>(packed.data());  // SAFETY: bytes alias
  envelope.request.assign(begin, begin + packed.size());
  envelope.answer_deadline_ms = static_cast<std::uint32_t>(answer_limit.count());
  Bytes whole = wire::pack_body<linkapi::RequestT>(std::move(envelope));
  // The marker's magic may stand in a request by ill luck or design; the connection refuses it, the client
  // learns why.
  SPACE_CO_TRY(rpc::Call call, co_await next_client().start(std::move(whole)));
  co_return GuestCall(std::move(call));
}

async::Task<Result<Opened>> LinkClient::open(SandboxId sandbox, guestapi::RequestT request,
                                             milliseconds answer_limit) {
  auto patience_ends = std::chrono::steady_clock::now() + options_.patience;
  for (;;) {
    auto call = co_await start(sandbox, request, answer_limit);
    Error error;
    if (call.ok()) {
      auto first = co_await call->next_within(answer_limit + kMargin);
      if (first.ok()) {
        auto* end = std::get_if<rpc::End>(&*first);
        if (end == nullptr || end->status.ok()) co_return Opened{std::move(*call), std::move(*first)};
        error = end->status.error();
      } else {
        error = std::move(first).error();
      }
    } else {
      error = std::move(call).error();
    }
    if (!never_arrived(error)) {
      if (error.reason == "rpc.connection_lost" || error.reason == "rpc.reset") co_return unreachable(error);
      co_return error;
    }
    if (error.reason == "rpc.unreachable" || std::chrono::steady_clock::now() >= patience_ends)
      co_return unreachable(error);
    co_await async::sleep_for(kRetryEvery);
  }
}

async::Task<Result<guestapi::ReplyT>> LinkClient::ask(SandboxId sandbox, guestapi::RequestT request,
                                                      milliseconds answer_limit) {
  SPACE_CO_TRY(Opened opened, co_await open(std::move(sandbox), std::move(request), answer_limit));
  guestapi::ReplyT reply;
  GuestEvent event = std::move(opened.first);
  for (;;) {
    if (auto* message = std::get_if<guestapi::ReplyT>(&event)) reply = std::move(*message);
    if (auto* end = std::get_if<rpc::End>(&event)) {
      if (!end->status.ok()) co_return end->status.error();
      co_return reply;
    }
    SPACE_CO_TRY(event, co_await opened.call.next_within(answer_limit + kMargin));
  }
}

async::Task<Result<void>> LinkClient::hello(SandboxId sandbox) {
  guestapi::RequestT request;
  request.body.Set(guestapi::HelloT());
  SPACE_CO_CHECK_OK(co_await ask(std::move(sandbox), std::move(request)));
  co_return Result<void>();
}

async::Task<Result<rpc::Call>> LinkClient::console(SandboxId sandbox, bool follow) {
  linkapi::ConsoleT request;
  request.sandbox = sandbox.str();
  request.follow = follow;
  return next_client().start(wire::pack_body<linkapi::RequestT>(std::move(request)));
}

async::Task<bool> LinkClient::alive(milliseconds limit) {
  auto now = std::chrono::steady_clock::now();
  if (now - asked_at_ < kAliveFor) co_return was_alive_;
  linkapi::ConsoleT request;
  request.sandbox = "nosuchsandbox0000000";
  auto answer = co_await async::with_deadline(
      clients_.front()->unary(wire::pack_body<linkapi::RequestT>(std::move(request)), limit), limit,
      "rpc.deadline", "link did not answer in time");
  asked_at_ = std::chrono::steady_clock::now();
  was_alive_ = answer.ok() || answer.error().reason.starts_with("link.");
  co_return was_alive_;
}

async::Task<void> LinkClient::stop() {
  for (auto& client : clients_) co_await client->stop();
}

}  // namespace space::control::upstream
