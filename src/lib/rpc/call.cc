// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/call.h"

#include "lib/rpc/internal/core.h"
#include "lib/wire/message.h"

namespace space::rpc {

Call::Call() = default;
Call::Call(std::shared_ptr<internal::Core> core, std::shared_ptr<internal::Stream> stream)
    : core_(std::move(core)), stream_(std::move(stream)) {}
Call::Call(Call&&) noexcept = default;
Call& Call::operator=(Call&& other) noexcept {
  if (this != &other) {
    reset();
    core_ = std::move(other.core_);
    stream_ = std::move(other.stream_);
  }
  return *this;
}
Call::~Call() {
  reset();
}

const Bytes& Call::request() const {
  return stream_->request;
}

Result<std::vector<os::Fd>> Call::take_fds(std::size_t count) {
  if (core_->received_fds.size() < count) {
    return make_error(Code::kInvalidArgument, "rpc.missing_descriptors", "the request lacks its descriptors");
  }
  std::vector<os::Fd> fds;
  for (std::size_t i = 0; i < count; ++i) {
    fds.push_back(std::move(core_->received_fds.front()));
    core_->received_fds.pop_front();
  }
  return fds;
}

async::Task<Result<void>> Call::send_message(Bytes message) {
  auto core = core_;
  auto stream = stream_;
  if (message.size() > wire::kMaxMessageBytes) {
    co_return make_error(Code::kInvalidArgument, "wire.message_too_large",
                         "a message may have at most 64 KiB");
  }
  for (;;) {
    if (stream->gone) co_return *stream->gone;
    if (core->find(stream->id) == nullptr)
      co_return make_error(Code::kAborted, "rpc.call_over", "the call has ended");
    if (core->mux.can_send_message(stream->id, message.size())) break;
    co_await stream->changed.wait();
  }
  auto outcome = core->mux.send_message(stream->id, message);
  core->flush();
  co_return outcome;
}

async::Task<Result<void>> Call::send_data(std::uint8_t channel, ByteView data) {
  auto core = core_;
  auto stream = stream_;
  while (!data.empty()) {
    if (stream->gone) co_return *stream->gone;
    if (core->find(stream->id) == nullptr)
      co_return make_error(Code::kAborted, "rpc.call_over", "the call has ended");
    std::size_t put = core->mux.send_data(stream->id, channel, data);
    if (put == 0) {
      co_await stream->changed.wait();
      continue;
    }
    data = data.subspan(put);
    core->flush();
  }
  co_return Result<void>();
}

bool Call::ready() const {
  return stream_->gone || !stream_->events.empty();
}

async::Task<Error> Call::gone() {
  auto core = core_;
  auto stream = stream_;
  while (!stream->gone) co_await stream->changed.wait();
  co_return *stream->gone;
}

async::Task<Result<CallEvent>> Call::next() {
  auto core = core_;
  auto stream = stream_;
  while (stream->events.empty()) {
    if (stream->over) co_return make_error(Code::kFailedPrecondition, "rpc.call_over", "the call has ended");
    if (stream->gone) co_return *stream->gone;
    co_await stream->changed.wait();
  }
  CallEvent event = std::move(stream->events.front());
  stream->events.pop_front();
  if (auto* message = std::get_if<Message>(&event)) {
    core->mux.grant_message(stream->id, message->bytes.size());
    core->flush();
  } else if (auto* data = std::get_if<Data>(&event)) {
    core->mux.grant(stream->id, data->bytes.size());
    core->flush();
  } else {
    stream->over = true;
  }
  co_return event;
}

void Call::end() {
  if (!core_ || core_->dead) return;
  core_->mux.end(stream_->id);
  core_->flush();
}

void Call::finish(const Result<void>& status) {
  if (!core_) return;
  if (!core_->dead && core_->find(stream_->id) != nullptr) {
    core_->mux.end(stream_->id, wire::pack_status(status));
    core_->streams.erase(stream_->id);
    core_->flush();
  }
  stream_->over = true;
  stream_->gone = make_error(Code::kFailedPrecondition, "rpc.call_over", "the call has ended");
}

void Call::reset() {
  if (!core_) return;
  if (!core_->dead && core_->find(stream_->id) != nullptr) {
    core_->mux.reset(stream_->id);
    core_->drop_stream(stream_->id, make_error(Code::kAborted, "rpc.reset", "this side gave the call up"));
    core_->flush();
  }
  core_.reset();
  stream_.reset();
}

async::Task<Result<Bytes>> finish_unary(Call& call) {
  Bytes last;
  for (;;) {
    SPACE_CO_TRY(CallEvent event, co_await call.next());
    if (auto* message = std::get_if<Message>(&event)) last = std::move(message->bytes);
    if (auto* end = std::get_if<End>(&event)) {
      if (!end->status.ok()) co_return end->status.error();
      co_return last;
    }
  }
}

}  // namespace space::rpc
