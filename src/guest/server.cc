// SPDX-License-Identifier: Apache-2.0
#include "guest/server.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "guest/call/make_call.h"
#include "guest/core/log.h"

namespace space::guest {
namespace {
constexpr std::size_t kReadBytes = 64u << 10;
// Reads in a row before other work gets its turn. A port gives at most a page at a time.
constexpr int kReadsPerRound = 64;
// How long a port without a host keeps its calls.
constexpr std::chrono::milliseconds kHostGrace{500};
}  // namespace

void Server::open(os::Fd channel, ChannelKind kind, std::function<void()> closed) {
  channel_ = std::move(channel);
  kind_ = kind;
  on_closed_ = std::move(closed);
  mux_.emplace(wire::Role::kAcceptor);
  // Edge-triggered: a port without a host reports a hang-up for as long as that lasts.
  services_.loop.watch(channel_.get(), EPOLLIN | EPOLLOUT | EPOLLET,
                       [this](std::uint32_t events) { on_channel(events); });
}

void Server::close() {
  detach_calls();
  if (channel_) services_.loop.unwatch(channel_.get());
  channel_.reset();
  if (written_) services_.loop.defer(std::exchange(written_, nullptr));
}

void Server::on_channel(std::uint32_t) {
  more_to_read_ = true;
  plan_round();
}

// All reading, pumping and writing happens in rounds, so that small messages leave together.
void Server::plan_round() {
  if (std::exchange(round_planned_, true)) return;
  services_.loop.defer([this] {
    round_planned_ = false;
    if (more_to_read_) read_some();
    if (!channel_) return;
    pump_calls();
    write_some();
    if (more_to_read_) plan_round();
  });
}

void Server::read_some() {
  std::array<std::byte, kReadBytes> buffer;
  for (int reads = 0; reads < kReadsPerRound && channel_; ++reads) {
    ssize_t got = ::read(channel_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) {
      more_to_read_ = false;
      return;
    }
    if (got <= 0) {
      more_to_read_ = false;
      if (kind_ == ChannelKind::kPort) return expect_host();
      auto closed = std::exchange(on_closed_, nullptr);
      close();
      if (closed) closed();
      return;
    }
    auto received = mux_->receive(ByteView(buffer).first(static_cast<std::size_t>(got)), *this);
    if (!received.ok()) {
      log_error("channel", received.error());
      if (!mux_->attached()) detach_calls();
    }
  }
}

// The kernel says that no host is connected. It may say so late: the news of a host that went and of the next
// one that came travel through a work queue, and the marker of the next one can overtake both. So the
// attachment, which a marker replaces anyway, is given up only when nobody is there some time later; then
// output for it would only wait.
void Server::expect_host() {
  if (std::exchange(host_expected_, true)) return;
  services_.loop.after(kHostGrace, [this] {
    host_expected_ = false;
    pollfd port{channel_.get(), 0, 0};
    if (!channel_ || ::poll(&port, 1, 0) != 1 || (port.revents & POLLHUP) == 0) return;
    detach_calls();
    mux_.emplace(wire::Role::kAcceptor);
  });
}

void Server::write_some() {
  while (channel_) {
    ByteView out = mux_->pending_output();
    if (out.empty()) break;
    ssize_t put = ::write(channel_.get(), out.data(), out.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;  // full (an event follows), or broken (reading will say so)
    mux_->consumed(static_cast<std::size_t>(put));
    if (!ready_.empty() && output_room() > 0) plan_round();
  }
  if (written_ && calls_.empty()) services_.loop.defer(std::exchange(written_, nullptr));
}

std::size_t Server::output_room() const {
  std::size_t queued = mux_->pending_output().size();
  return queued >= kOutputHigh ? 0 : kOutputHigh - queued;
}

void Server::want_pump(wire::StreamId stream) {
  if (queued_.insert(stream).second) ready_.push_back(stream);
  plan_round();
}

// Each ready call in turn, until none has more or the output is full.
void Server::pump_calls() {
  while (!ready_.empty() && output_room() > 0) {
    wire::StreamId stream = ready_.front();
    ready_.pop_front();
    queued_.erase(stream);
    auto call = find(stream);
    if (call && call->pump() && queued_.insert(stream).second) ready_.push_back(stream);
  }
}

void Server::when_written(std::chrono::milliseconds limit, std::function<void()> done) {
  if (!channel_) return services_.loop.defer(std::move(done));
  written_ = std::move(done);
  services_.loop.after(limit, [this] {
    if (written_) std::exchange(written_, nullptr)();
  });
  plan_round();
}

void Server::detach_calls() {
  auto calls = std::exchange(calls_, {});
  ready_.clear();
  queued_.clear();
  for (auto& [stream, call] : calls) call->detach();
}

std::shared_ptr<Call> Server::find(wire::StreamId stream) const {
  auto it = calls_.find(stream);
  return it == calls_.end() ? nullptr : it->second;
}

void Server::on_attached(const wire::Marker&) {
  detach_calls();
}

void Server::on_open(wire::StreamId stream, ByteView request) {
  auto call = make_call(*this, stream, services_, request);
  calls_.emplace(stream, call);
  call->start();
}

void Server::on_message(wire::StreamId stream, ByteView message) {
  if (auto call = find(stream)) call->on_message(message);
}

void Server::on_data(wire::StreamId stream, std::uint8_t channel, ByteView data) {
  if (auto call = find(stream)) call->on_data(channel, data);
}

void Server::on_end(wire::StreamId stream, ByteView) {
  if (auto call = find(stream)) call->on_host_end();
}

void Server::on_reset(wire::StreamId stream) {
  auto call = find(stream);
  calls_.erase(stream);
  if (call) call->detach();
}

void Server::closed(wire::StreamId stream) {
  calls_.erase(stream);
}

}  // namespace space::guest
