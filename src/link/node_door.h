// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the node agent may ask (the first half of link.fbs): attach and detach sandboxes, drive their VMMs,
// watch. Nothing here can talk to a daemon beyond Hello. Posture: internal.

#include "lib/obs/log.h"
#include "lib/rpc/call.h"
#include "link/sandboxes.h"

namespace space::link {

// The tail of the console that DetachSandbox gives: what fits in one message of ours and of the node's.
inline constexpr std::size_t kConsoleTailBytes = 48 * 1024;
// How long a VMM has for its handshake.
inline constexpr auto kQmpHandshakeLimit = std::chrono::seconds(30);

// Resource type; one loop; outlives its calls.
class NodeDoor {
 public:
  NodeDoor(const async::Executor& executor, Sandboxes& sandboxes, EventHub& hub, const obs::Log& log)
      : executor_(executor), sandboxes_(sandboxes), hub_(hub), log_(log) {}
  // One call, from its request to its end. For rpc::Server.
  async::Task<void> answer(rpc::Call call);

 private:
  async::Task<Result<void>> dispatch(rpc::Call& call, const linkapi::Request& request);
  async::Task<Result<void>> attach(rpc::Call& call, const linkapi::AttachSandbox& request);
  async::Task<Result<void>> wait_ready(rpc::Call& call, const linkapi::WaitReady& request);
  async::Task<Result<void>> detach(rpc::Call& call, const linkapi::DetachSandbox& request);
  async::Task<Result<void>> machine(rpc::Call& call, const linkapi::Machine& request);
  async::Task<Result<void>> watch(rpc::Call& call);

  async::Executor executor_;
  Sandboxes& sandboxes_;
  EventHub& hub_;
  const obs::Log& log_;
};

}  // namespace space::link
