// SPDX-License-Identifier: Apache-2.0
#include "link/relay.h"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <optional>
#include <variant>

#include "lib/async/event.h"

namespace space::link {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

class Relay {
 public:
  Relay(rpc::Call& client, rpc::Call guest, Attachment& attachment, CallRules rules,
        std::chrono::milliseconds answer_limit, const async::Executor& executor, RelayCounts& counts,
        const obs::Log& log)
      : client_(client),
        guest_(std::move(guest)),
        attachment_(attachment),
        rules_(std::move(rules)),
        answer_limit_(answer_limit),
        changed_(executor),
        counts_(counts),
        log_(log) {
    if (!rules_.answers_last()) owes_answer();
  }

  async::Task<Result<void>> run() {
    using boost::asio::experimental::awaitable_operators::operator||;
    auto outcome = co_await (from_guest() || to_guest() || overdue());
    co_return std::visit([](auto& result) { return std::move(result); }, outcome);
  }

 private:
  // The daemon is expected to answer from now on, or not any more.
  void owes_answer() {
    owed_since_ = std::chrono::steady_clock::now();
    changed_.notify_all();
  }
  void owes_nothing() { owed_since_.reset(); }

  // An error of the rules about what the daemon did.
  Error judged(Error error) {
    if (error.reason == "link.protocol_error") attachment_.fail_protocol(error);
    return error;
  }

  async::Task<Result<void>> from_guest() {
    for (;;) {
      auto event = co_await guest_.next();
      if (!event.ok()) co_return attachment_.explain(event.error());
      answered_ = true;
      if (auto* message = std::get_if<rpc::Message>(&*event)) {
        auto clean = rules_.on_message(message->bytes);
        if (!clean.ok()) co_return judged(std::move(clean).error());
        SPACE_CO_CHECK_OK(co_await to_client(client_.send_message(std::move(*clean))));
      } else if (auto* data = std::get_if<rpc::Data>(&*event)) {
        auto allowed = rules_.on_data(data->channel, data->bytes.size());
        if (!allowed.ok()) co_return judged(std::move(allowed).error());
        counts_.from_guest_bytes += data->bytes.size();
        SPACE_CO_CHECK_OK(co_await to_client(client_.send_data(data->channel, data->bytes)));
      } else {
        auto ending = rules_.on_end(std::get<rpc::End>(*event).status);
        if (!ending.ok()) co_return judged(std::move(ending).error());
        co_return std::move(ending->status);
      }
    }
  }

  async::Task<Result<void>> to_client(async::Task<Result<void>> sending) {
    auto sent = co_await std::move(sending);
    if (!sent.ok()) counts_.client_left = true;
    co_return sent;
  }

  async::Task<Result<void>> to_guest() {
    for (bool ended = false; !ended;) {
      auto event = co_await client_.next();
      if (!event.ok()) {
        counts_.client_left = true;
        co_return std::move(event).error();
      }
      Result<void> sent;
      if (auto* data = std::get_if<rpc::Data>(&*event)) {
        SPACE_CO_CHECK_OK(rules_.client_data(data->channel));
        // A daemon that doesn't take what it asked for is late too.
        if (rules_.answers_last()) owes_answer();
        sent = co_await guest_.send_data(0, data->bytes);
        if (rules_.answers_last()) owes_nothing();
        counts_.to_guest_bytes += data->bytes.size();
      } else if (auto* message = std::get_if<rpc::Message>(&*event)) {
        SPACE_CO_TRY(auto kind, rules_.client_message(message->bytes));
        log_.info("guest_control",
                  {{"sandbox", attachment_.sandbox().str()}, {"kind", guestapi::EnumNameControlBody(kind)}});
        sent = co_await guest_.send_message(std::move(message->bytes));
        // The one error of sending that is the client's fault.
        if (!sent.ok() && sent.error().code == Code::kInvalidArgument) co_return sent;
      } else {
        guest_.end();
        if (rules_.answers_last()) owes_answer();
        ended = true;
      }
      // The daemon has ended the call; from_guest() says how.
      if (!sent.ok()) break;
    }
    Error why = co_await client_.gone();
    counts_.client_left = true;
    co_return why;
  }

  // Ends when the daemon owes its first answer for too long.
  async::Task<Result<void>> overdue() {
    for (;;) {
      if (!owed_since_ || answered_) {
        co_await changed_.wait();
        continue;
      }
      SteadyTime deadline = *owed_since_ + answer_limit_;
      if (std::chrono::steady_clock::now() >= deadline) {
        co_return make_error(
            Code::kDeadlineExceeded, "link.guest_not_answering",
            "the sandbox's daemon did not answer in time; the guest may be hung or very busy");
      }
      co_await changed_.wait_until(deadline);
    }
  }

  rpc::Call& client_;
  rpc::Call guest_;
  Attachment& attachment_;
  CallRules rules_;
  std::chrono::milliseconds answer_limit_;
  std::optional<SteadyTime> owed_since_;
  bool answered_ = false;
  async::Event changed_;
  RelayCounts& counts_;
  const obs::Log& log_;
};

// Waits for the attachment, or for the client to leave.
async::Task<Result<void>> wait_for_daemon(rpc::Call& client, Attachment& attachment, SteadyTime deadline,
                                          RelayCounts& counts) {
  using boost::asio::experimental::awaitable_operators::operator||;
  auto outcome = co_await (attachment.wait_attached(deadline) || client.gone());
  if (outcome.index() == 0) co_return std::get<0>(std::move(outcome));
  counts.client_left = true;
  co_return std::get<1>(std::move(outcome));
}

}  // namespace

async::Task<Result<void>> relay_call(rpc::Call& client, Attachment& attachment, RequestFacts facts,
                                     Bytes request, std::chrono::milliseconds answer_limit,
                                     RelayCounts& counts, const obs::Log& log) {
  SPACE_CO_TRY(Attachment::Slot slot, attachment.reserve());
  auto executor = co_await boost::asio::this_coro::executor;
  SPACE_CO_CHECK_OK(
      co_await wait_for_daemon(client, attachment, std::chrono::steady_clock::now() + answer_limit, counts));
  SPACE_CO_TRY(rpc::Call guest, attachment.open(std::move(request)));
  Relay relay(client, std::move(guest), attachment, CallRules(std::move(facts)), answer_limit, executor,
              counts, log);
  co_return co_await relay.run();
}

}  // namespace space::link
