// SPDX-License-Identifier: Apache-2.0
#pragma once
// api/node.fbs on one side, actions.h on the other; nothing but translation. Posture: internal.

#include "lib/async/task.h"
#include "lib/rpc/call.h"
#include "node/actions.h"

namespace space::nodeapi {
struct Request;
struct CreateSandbox;
struct DestroySandbox;
struct BuildTemplate;
}  // namespace space::nodeapi

namespace space::node {

// Resource type; one loop; outlives its calls.
class Service {
 public:
  Service(const async::Executor& executor, Actions& actions) : executor_(executor), actions_(actions) {}
  // One call, from its request to its end. For rpc::Server.
  async::Task<void> answer(rpc::Call call);

 private:
  async::Task<Result<void>> dispatch(rpc::Call& call, const nodeapi::Request& request);
  async::Task<Result<void>> create(rpc::Call& call, const nodeapi::CreateSandbox& request);
  async::Task<Result<void>> destroy(rpc::Call& call, const nodeapi::DestroySandbox& request);
  async::Task<Result<void>> list(rpc::Call& call);
  async::Task<Result<void>> watch(rpc::Call& call);
  async::Task<Result<void>> info(rpc::Call& call);
  async::Task<Result<void>> list_templates(rpc::Call& call);
  async::Task<Result<void>> build_template(rpc::Call& call, const nodeapi::BuildTemplate& request);
  async::Task<Result<void>> build(std::string name, struct ProgressQueue& queue);

  async::Executor executor_;
  Actions& actions_;
};

}  // namespace space::node
