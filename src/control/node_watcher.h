// SPDX-License-Identifier: Apache-2.0
#pragma once
// Keeps an ear on the node: its recovery report, sandboxes that end by themselves, whether it is there at
// all. After every (re)connection sessions and sandboxes are reconciled before further events are taken.
// Resource type; one loop. Posture: internal.

#include <optional>
#include <string>
#include <vector>

#include "control/operations/engine.h"
#include "control/upstream/node_client.h"
#include "lib/async/task.h"
#include "lib/base/clock.h"
#include "lib/obs/log.h"

namespace space::control {

// What the node found when it started.
struct Recovery {
  WallTime at;
  std::vector<std::string> adopted;
  std::vector<std::string> destroyed;
};

class NodeWatcher {
 public:
  NodeWatcher(upstream::NodeClient& node, operations::Engine& engine, const Clock& clock, const obs::Log& log)
      : node_(node), engine_(engine), clock_(clock), log_(log) {}

  // Until cancelled.
  async::Task<void> run();

  [[nodiscard]] bool connected() const { return connected_; }
  // Have sessions and sandboxes been made to agree since the start?
  [[nodiscard]] bool reconciled() const { return reconciled_; }
  [[nodiscard]] const std::optional<Recovery>& recovery() const { return recovery_; }
  // The newest that is known, from now or from before the connection was lost.
  [[nodiscard]] const std::optional<nodeapi::InfoT>& info() const { return info_; }

 private:
  async::Task<Result<void>> listen();
  void note_recovery(const nodeapi::EventT& event);

  upstream::NodeClient& node_;
  operations::Engine& engine_;
  const Clock& clock_;
  const obs::Log& log_;
  bool connected_ = false;
  bool reconciled_ = false;
  std::optional<Recovery> recovery_;
  std::optional<nodeapi::InfoT> info_;
};

}  // namespace space::control
