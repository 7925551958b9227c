// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the daemon tells of itself, its commands and its machine.

#include "guest/call/call.h"
#include "guest/call/services.h"

namespace space::guest {

guestapi::HelloReplyT hello(const Services& services);
// Blocking: reads /proc.
guestapi::MetricsT metrics();

// ListCommands: one message at a time, so that any number of commands fits in the window.
class ListCommandsCall final : public Call {
 public:
  ListCommandsCall(CallHost& host, wire::StreamId stream, Services& services)
      : Call(host, stream), services_(services) {}
  void start() override;

 protected:
  bool pump_more() override;

 private:
  Services& services_;
  std::vector<std::shared_ptr<Command>> left_;  // newest first
};

// An answer that is there at once.
class ImmediateCall final : public Call {
 public:
  using Answer = std::function<void(ImmediateCall&)>;
  ImmediateCall(CallHost& host, wire::StreamId stream, Answer answer)
      : Call(host, stream), answer_(std::move(answer)) {}
  void start() override { answer_(*this); }
  using Call::finish;
  using Call::send;

 private:
  Answer answer_;
};

}  // namespace space::guest
