// SPDX-License-Identifier: Apache-2.0
#include "link/attachment.h"

#include "link/sanitize.h"
#include "link/text.h"

namespace space::link {
namespace {

// Requests that the daemon has not read yet. A daemon that reads keeps this near zero.
constexpr std::size_t kMaxUnsentBytes = 1u << 20;

Error not_answering() {
  return make_error(Code::kDeadlineExceeded, "link.guest_not_answering",
                    "the sandbox's daemon did not answer in time; the guest may be hung or very busy");
}

// Did the daemon cause this end of its channel by what it sent?
bool is_violation(const Error& why) {
  return why.code == Code::kDataLoss || why.reason == "wire.version" || why.reason == "wire.no_echo";
}

}  // namespace

Attachment::Attachment(const async::Executor& executor, os::Random& random, EventHub& hub,
                       const obs::Log& log, SandboxId sandbox, Generation generation, Sockets sockets,
                       std::shared_ptr<Console> console)
    : executor_(executor),
      random_(random),
      hub_(hub),
      log_(log),
      sandbox_(std::move(sandbox)),
      generation_(generation),
      channel_socket_(std::move(sockets.channel)),
      console_(std::move(console)),
      qmp_(executor, std::move(sockets.qmp),
           [this](const QmpEvent& event) { hub_.raise({sandbox_, event.kind, event.detail}); }),
      console_reader_(executor, std::move(sockets.console), console_),
      changed_(executor),
      scope_(executor) {}

void Attachment::start() {
  if (started_ || stopping_) return;
  started_ = true;
  qmp_.start();
  console_reader_.start();
  wire::MuxLimits limits;
  limits.max_streams = kMaxCallsPerSandbox + 8;  // a few more for calls that are on their way out
  channel_ = rpc::Connection::ask(executor_, std::move(channel_socket_), random_,
                                  static_cast<std::uint64_t>(generation_), limits);
  scope_.spawn(watch_channel());
  changed_.notify_all();
}

async::Task<void> Attachment::watch_channel() {
  co_await channel_->closed();
  if (failure_) co_return;
  Error why = channel_->why();
  if (is_violation(why)) {
    fail_protocol(why);
  } else {
    close_channel(make_error(Code::kUnavailable, "link.sandbox_gone", "the sandbox closed its channel"));
    hub_.raise({sandbox_, linkapi::EventKind::ChannelClosed, "closed"});
  }
}

void Attachment::close_channel(Error why) {
  if (failure_) return;
  failure_ = std::move(why);
  channel_.reset();
  channel_socket_.reset();
  changed_.notify_all();
}

void Attachment::fail_protocol(const Error& violation) {
  if (failure_) return;
  std::string detail = one_line(violation.message, 200);
  log_.warning("protocol_error",
               {{"sandbox", sandbox_.str()}, {"reason", violation.reason}, {"detail", detail}});
  close_channel(make_error(Code::kDataLoss, "link.protocol_error", detail));
  hub_.raise({sandbox_, linkapi::EventKind::ProtocolError, detail});
}

Error Attachment::explain(const Error& from_channel) const {
  if (failure_) return *failure_;
  if (channel_ && !channel_->alive()) {
    // The watcher has not run yet.
    if (is_violation(channel_->why()))
      return make_error(Code::kDataLoss, "link.protocol_error", one_line(channel_->why().message, 200));
    return make_error(Code::kUnavailable, "link.sandbox_gone", "the sandbox closed its channel");
  }
  if (from_channel.reason == "rpc.reset")
    return make_error(Code::kAborted, "link.guest_reset", "the sandbox's daemon gave the call up");
  return from_channel;
}

async::Task<Result<void>> Attachment::wait_attached(std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    if (failure_) co_return *failure_;
    if (channel_ && channel_->attached()) co_return Result<void>();
    auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) co_return not_answering();
    if (!channel_) {
      co_await changed_.wait_until(deadline);
      continue;
    }
    auto attached = co_await channel_->wait_attached(left);
    if (!attached.ok() && attached.error().reason == "rpc.not_attached") co_return not_answering();
    if (!attached.ok()) co_return explain(attached.error());
  }
}

Result<Attachment::Slot> Attachment::reserve() {
  if (failure_) return *failure_;
  if (calls_ >= kMaxCallsPerSandbox) {
    return make_error(Code::kResourceExhausted, "link.too_many_calls",
                      "a sandbox takes at most 64 calls at once; end some");
  }
  return Slot(*this);
}

Result<rpc::Call> Attachment::open(Bytes request) {
  if (failure_) return *failure_;
  if (channel_->alive() && channel_->unsent() > kMaxUnsentBytes) return not_answering();
  auto call = channel_->start(std::move(request));
  if (!call.ok()) return explain(call.error());
  return call;
}

async::Task<void> Attachment::stop(Error why) {
  stopping_ = true;
  close_channel(std::move(why));
  co_await qmp_.stop();
  co_await console_reader_.stop();
  co_await scope_.stop();
}

}  // namespace space::link
