// SPDX-License-Identifier: Apache-2.0
#pragma once
// Exec and Attach: a command's streams on a call.
//
// When the stream goes without our status, the command is kept and its output stays in its rings. A call that
// is over never ends a command; only Signal, SignalCommand and the timeout do.

#include <memory>

#include "guest/call/call.h"
#include "guest/call/services.h"
#include "guest/command/command.h"

namespace space::guest {

class CommandCall : public Call, public CommandViewer {
 public:
  ~CommandCall() override { on_detached(); }
  void on_message(ByteView message) override;
  void on_data(std::uint8_t channel, ByteView data) override;
  void on_host_end() override;

 protected:
  CommandCall(CallHost& host, wire::StreamId stream, Services& services)
      : Call(host, stream), services_(services) {}
  // From Started or Attached on.
  void follow(std::shared_ptr<Command> command) { command_ = std::move(command); }

  void on_started(pid_t) override {}
  void on_start_failed(const Error& error) override;
  void on_progress() override { want_pump(); }
  void on_input_consumed(std::size_t bytes) override { consumed(bytes); }
  void on_replaced() override;
  bool pump_more() override;
  void on_detached() final;

  Services& services_;
  std::shared_ptr<Command> command_;
  // Started or Attached is on its way: output may follow. A process writes before the pool reports its start.
  bool announced_ = false;

 private:
  bool exit_sent_ = false;
};

class ExecCall final : public CommandCall {
 public:
  ExecCall(CallHost& host, wire::StreamId stream, Services& services, guestapi::ExecT request)
      : CommandCall(host, stream, services), request_(std::move(request)) {}
  void start() override;

 protected:
  void on_started(pid_t pid) override;

 private:
  guestapi::ExecT request_;
};

class AttachCall final : public CommandCall {
 public:
  AttachCall(CallHost& host, wire::StreamId stream, Services& services, guestapi::AttachT request)
      : CommandCall(host, stream, services), request_(std::move(request)) {}
  void start() override;

 private:
  guestapi::AttachT request_;
};

// Exited as the host gets it.
guestapi::ExitedT exited_message(const ExitRecord& record);

}  // namespace space::guest
