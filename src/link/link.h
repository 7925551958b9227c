// SPDX-License-Identifier: Apache-2.0
#pragma once
// space-link as an object: two listening sockets, one per right, and the sandboxes behind them.
//
// Who can connect to the node socket can attach sandboxes and drive VMMs; who can connect to the control
// socket can only talk to daemons. Resource type; one loop. Posture: hostile-guest.

#include "lib/obs/log.h"
#include "lib/os/random.h"
#include "lib/rpc/server.h"
#include "link/control_door.h"
#include "link/event_hub.h"
#include "link/node_door.h"
#include "link/sandboxes.h"

namespace space::link {

class Link {
 public:
  // The sockets are listening and non-blocking. The references outlive this object.
  Link(const async::Executor& executor, os::Random& random, const obs::Log& log, os::Fd node_listener,
       os::Fd control_listener);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  void start();
  // Refuses new calls, ends the running ones, closes every sandbox's sockets.
  async::Task<void> stop();

 private:
  EventHub hub_;
  Sandboxes sandboxes_;
  NodeDoor node_door_;
  ControlDoor control_door_;
  rpc::Server node_server_;
  rpc::Server control_server_;
};

}  // namespace space::link
