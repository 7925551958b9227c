// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the control plane may ask (the second half of link.fbs): talk to the daemons of attached sandboxes and
// read their consoles. Nothing here can attach a sandbox or reach a VMM. Posture: tenant-input.

#include "lib/obs/log.h"
#include "lib/rpc/call.h"
#include "link/sandboxes.h"

namespace space::link {

// Resource type; one loop; outlives its calls.
class ControlDoor {
 public:
  ControlDoor(Sandboxes& sandboxes, const obs::Log& log) : sandboxes_(sandboxes), log_(log) {}
  // One call, from its request to its end. For rpc::Server.
  async::Task<void> answer(rpc::Call call);

 private:
  async::Task<Result<void>> guest_call(rpc::Call& call, const linkapi::GuestCall& request);
  async::Task<Result<void>> console(rpc::Call& call, const linkapi::Console& request);

  Sandboxes& sandboxes_;
  const obs::Log& log_;
};

}  // namespace space::link
