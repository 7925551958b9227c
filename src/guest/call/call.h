// SPDX-License-Identifier: Apache-2.0
#pragma once
// A call of the host, as the code that answers it sees it.
//
// A Call reacts to what the host sends and produces messages, data and at last a status, all within the
// windows of its stream. The Server (server.h) owns the streams, asks each call in turn for what it has
// (pump()), and keeps the channel's output short, so that one busy call can't starve the others. Shared: work
// on a pool thread keeps its call alive after the stream has gone. For the loop's thread.

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "api/guest_generated.h"
#include "lib/base/bytes.h"
#include "lib/base/result.h"
#include "lib/wire/message.h"
#include "lib/wire/mux.h"

namespace space::guest {

// The server's side of a call's stream.
class CallHost {
 public:
  virtual ~CallHost() = default;
  virtual wire::Mux& mux() = 0;
  // Bytes of output that may still be queued for the channel now.
  [[nodiscard]] virtual std::size_t output_room() const = 0;
  // Something was queued for the channel outside of a pump().
  virtual void output_added() = 0;
  // Asks for a pump() of that call soon.
  virtual void want_pump(wire::StreamId stream) = 0;
  // The call is over: its status has been sent.
  virtual void closed(wire::StreamId stream) = 0;
};

class Call : public std::enable_shared_from_this<Call> {
 public:
  virtual ~Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // The first thing called, with the stream open.
  virtual void start() = 0;
  // By default these are consumed and dropped.
  virtual void on_message(ByteView message);
  virtual void on_data(std::uint8_t channel, ByteView data);
  // The host sends no more.
  virtual void on_host_end() {}

  // Sends what there is and fits. True when there is more that could be sent right away.
  bool pump();
  // The stream has gone without our status: reset by the host, or its attachment is over.
  void detach();
  // Is there no stream (any more)?
  [[nodiscard]] bool gone() const { return host_ == nullptr; }

 protected:
  Call(CallHost& host, wire::StreamId stream) : host_(&host), stream_(stream) {}

  // Queues a message. The caller bounds how many wait.
  template <class BodyT>
  void send(BodyT body) {
    if (gone()) return;
    outbox_.push_back(wire::pack_body<guestapi::ReplyT>(std::move(body)));
    want_pump();
  }
  [[nodiscard]] std::size_t outbox_size() const { return outbox_.size(); }
  // Sends a prefix of `data` right away, as far as it fits; returns its length.
  std::size_t send_data(std::uint8_t channel, ByteView data);
  // The call's status; sent when all that was queued has been. Later ones are ignored.
  void finish(Result<void> status);
  [[nodiscard]] bool finishing() const { return status_.has_value(); }
  void want_pump();
  // Received bytes (messages: their size) have been used.
  void consumed(std::size_t bytes);
  void consumed_message(std::size_t size);

  // Sends data (by send_data) or queues messages. True when it could go on right away. Not called before
  // queued messages have gone.
  virtual bool pump_more() { return false; }
  virtual void on_detached() {}

 private:
  CallHost* host_;
  wire::StreamId stream_;
  std::deque<Bytes> outbox_;
  std::optional<Result<void>> status_;
};

}  // namespace space::guest
