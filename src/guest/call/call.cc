// SPDX-License-Identifier: Apache-2.0
#include "guest/call/call.h"

#include <algorithm>

namespace space::guest {
namespace {
// What a call may send before the next one's turn.
constexpr std::size_t kTurnBytes = wire::kMaxDataBytes;
}  // namespace

void Call::on_message(ByteView message) {
  consumed_message(message.size());
}

void Call::on_data(std::uint8_t, ByteView data) {
  consumed(data.size());
}

bool Call::pump() {
  if (gone()) return false;
  while (!outbox_.empty()) {
    if (!host_->mux().can_send_message(stream_, outbox_.front().size())) return false;
    if (host_->output_room() == 0) return true;
    // Too large is impossible: builders of replies bound them. The host would see a call without that
    // message.
    host_->mux().send_message(stream_, outbox_.front()).ignore("window and size are known to fit");
    outbox_.pop_front();
  }
  bool more = pump_more();
  if (gone()) return false;
  if (!outbox_.empty()) return true;
  if (status_ && !more) {
    host_->mux().end(stream_, wire::pack_status(*status_));
    std::exchange(host_, nullptr)->closed(stream_);
    return false;
  }
  return more;
}

void Call::detach() {
  if (gone()) return;
  host_ = nullptr;
  outbox_.clear();
  on_detached();
}

std::size_t Call::send_data(std::uint8_t channel, ByteView data) {
  if (gone()) return 0;
  std::size_t room = std::min(host_->output_room(), kTurnBytes);
  return host_->mux().send_data(stream_, channel, data.first(std::min(data.size(), room)));
}

void Call::finish(Result<void> status) {
  if (gone() || status_) return;
  status_ = std::move(status);
  want_pump();
}

void Call::want_pump() {
  if (!gone()) host_->want_pump(stream_);
}

void Call::consumed(std::size_t bytes) {
  if (gone()) return;
  host_->mux().grant(stream_, bytes);
  host_->output_added();
}

void Call::consumed_message(std::size_t size) {
  if (gone()) return;
  host_->mux().grant_message(stream_, size);
  host_->output_added();
}

}  // namespace space::guest
