// SPDX-License-Identifier: Apache-2.0
#pragma once
// The node agent as typed calls (api/node.fbs). While the agent restarts, a call waits a few seconds for it
// and then fails with rpc.unreachable; a call that was under way when the connection broke fails with
// rpc.connection_lost. Both are retryable, and every call here may be asked again: the agent's calls are
// idempotent by name.
//
// Resource type; one loop. Posture: internal (the node is trusted; its strings may still hold a guest's
// bytes).

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "api/node_generated.h"
#include "lib/async/task.h"
#include "lib/base/id.h"
#include "lib/base/result.h"
#include "lib/rpc/client.h"

namespace space::control::upstream {

class NodeClient {
 public:
  NodeClient(const async::Executor& executor, os::Random& random, rpc::Client::Connect connect,
             std::chrono::milliseconds patience = std::chrono::seconds(5))
      : client_(executor, random, "the node agent", std::move(connect), patience) {}

  // Waits until the sandbox's daemon answers, at most `limit`.
  async::Task<Result<nodeapi::SandboxInfoT>> create_sandbox(nodeapi::CreateSandboxT request,
                                                            std::chrono::milliseconds limit);
  async::Task<Result<nodeapi::DestroyedT>> destroy_sandbox(SandboxId sandbox,
                                                           std::chrono::milliseconds limit);
  async::Task<Result<std::vector<nodeapi::SandboxInfoT>>> list_sandboxes();
  async::Task<Result<nodeapi::InfoT>> info();
  async::Task<Result<std::vector<nodeapi::TemplateT>>> list_templates();
  // `on_line` sees each line of progress while it comes.
  async::Task<Result<nodeapi::TemplateT>> build_template(
      std::string name, std::function<async::Task<void>(std::string)> on_line);
  async::Task<Result<void>> remove_template(std::string name);
  // The events of this node from now on; the first is Recovered.
  async::Task<Result<rpc::Call>> watch();
  static Result<nodeapi::EventT> read_event(const Bytes& message);

  async::Task<void> stop() { return client_.stop(); }

 private:
  rpc::Client client_;
};

}  // namespace space::control::upstream
