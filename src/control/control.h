// SPDX-License-Identifier: Apache-2.0
#pragma once
// The control plane as one object: builds the graph, starts and stops it. main() gives it descriptors and a
// clock; tests give it a simulated clock and scripted neighbours.
//
// start() returns once the API answers; stop() ends the sessions, then everything else. Resource type; one
// loop.

#include <chrono>
#include <memory>
#include <string>

#include "control/keyring.h"
#include "control/meta/store.h"
#include "control/node_watcher.h"
#include "control/operations/console_tails.h"
#include "control/operations/engine.h"
#include "control/remembered.h"
#include "control/upstream/link_client.h"
#include "control/upstream/node_client.h"
#include "lib/async/task_scope.h"
#include "lib/http/server.h"
#include "lib/obs/log.h"
#include "lib/os/fd.h"
#include "lib/os/random.h"

namespace space::control {

namespace api {
class Api;
}

struct ControlOptions {
  os::Fd api_listener;          // listening TCP socket
  std::string state_directory;  // holds meta.db and logs/
  rpc::Client::Connect connect_node;
  rpc::Client::Connect connect_link;
  std::string admin_key_sha256;
  std::string version;
  std::string openapi;  // text that GET /v1/openapi.yaml gives
  http::ServerOptions http;
  upstream::LinkOptions link;
  std::chrono::milliseconds node_patience = std::chrono::seconds(5);
  std::chrono::milliseconds expiry_every = std::chrono::milliseconds(500);
  std::chrono::milliseconds reconcile_every = std::chrono::seconds(30);
  // What stop() may take for the sessions, and then for the requests under way.
  std::chrono::milliseconds session_grace = std::chrono::seconds(15);
  std::chrono::milliseconds request_grace = std::chrono::seconds(2);
};

class Control {
 public:
  // The references must outlive the control plane.
  Control(const async::Executor& executor, ControlOptions options, const Clock& clock, os::Random& random,
          const obs::Log& log);
  ~Control();

  // Opens the database, takes up what an earlier process left, serves. Errors: those of the database,
  // control.bad_admin_key.
  async::Task<Result<void>> start();
  enum class Sessions : std::uint8_t {
    kKill,   // they end as control.platform_stopped
    kLeave,  // they go on; a later process takes them and all operations up
  };
  // Refuses new connections and sessions, does with the live ones as asked, lets answers out, stops.
  async::Task<void> stop(Sessions sessions);

  // Preconditions of these: start() has succeeded.
  operations::Engine& engine() { return *engine_; }
  NodeWatcher& watcher() { return *watcher_; }
  Keyring& keyring() { return *keyring_; }
  meta::Store& store() { return *store_; }

 private:
  async::Task<void> expire_loop();
  async::Task<void> reconcile_loop();

  async::Executor executor_;
  ControlOptions options_;
  const Clock& clock_;
  os::Random& random_;
  const obs::Log& log_;
  std::unique_ptr<meta::Store> store_;
  std::unique_ptr<upstream::NodeClient> node_;
  std::unique_ptr<upstream::LinkClient> link_;
  std::unique_ptr<operations::ConsoleTails> tails_;
  std::unique_ptr<operations::Engine> engine_;
  std::unique_ptr<NodeWatcher> watcher_;
  std::unique_ptr<Keyring> keyring_;
  std::unique_ptr<Remembered> remembered_;
  std::unique_ptr<api::Api> api_;
  std::unique_ptr<http::Server> server_;
  async::TaskScope scope_;
};

}  // namespace space::control
