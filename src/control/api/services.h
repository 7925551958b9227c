// SPDX-License-Identifier: Apache-2.0
#pragma once
// What handlers may use. Everything outlives the server.

#include <string>

#include "control/keyring.h"
#include "control/meta/store.h"
#include "control/node_watcher.h"
#include "control/operations/console_tails.h"
#include "control/operations/engine.h"
#include "control/remembered.h"
#include "control/upstream/link_client.h"
#include "lib/obs/log.h"
#include "lib/os/random.h"

namespace space::control::api {

struct Services {
  operations::Engine& engine;
  meta::Store& store;
  upstream::LinkClient& link;
  NodeWatcher& watcher;
  Keyring& keyring;
  Remembered& remembered;
  operations::ConsoleTails& tails;
  os::Random& random;
  const obs::Log& log;
  std::string version;
  std::string openapi;  // the text of api/openapi.yaml
};

}  // namespace space::control::api
