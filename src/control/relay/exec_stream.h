// SPDX-License-Identifier: Apache-2.0
#pragma once
// A command's output and input over a WebSocket: exec and attach.
//
// Server: {"type":"started"|"attached"...}, binary frames (channel byte 1 or 2, then bytes),
// {"type":"exited"...}. Client: binary frames (byte 0, then stdin),
// {"type":"stdin_end"|"resize"|"signal"...}. A stream without an exited frame has ended in an error, and says
// which.

#include "control/relay/duplex.h"
#include "model/command.h"

namespace space::control::relay {

guestapi::RequestT exec_request(const model::CommandRequest& command);

class ExecStream final : public Duplex {
 public:
  // `detached`: the call ends with the start, without an exit.
  ExecStream(std::unique_ptr<http::WebSocket> socket, upstream::Opened opened, std::string command_id,
             bool detached)
      : Duplex(std::move(socket), std::move(opened)),
        command_id_(std::move(command_id)),
        detached_(detached) {}

 private:
  async::Task<Result<Next>> on_guest(upstream::GuestEvent event) override;
  async::Task<Result<void>> on_client(http::WebSocketMessage message) override;

  std::string command_id_;
  bool detached_;
  bool exited_ = false;
};

}  // namespace space::control::relay
