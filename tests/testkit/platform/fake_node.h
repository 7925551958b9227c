// SPDX-License-Identifier: Apache-2.0
#pragma once
// A scripted node agent behind the real protocol (api/node.fbs). Sandboxes survive stop() and start(), as
// those of a real node do. Resource type; one loop.

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/async/event.h"
#include "lib/async/task.h"
#include "lib/rpc/server.h"
#include "tests/testkit/platform/fake_sandbox.h"

namespace space::testkit {

class FakeNode {
 public:
  FakeNode(const async::Executor& executor, std::string socket_path, FakeSandboxes& sandboxes);

  void start();
  async::Task<void> stop();

  // ---- script ----
  bool hold_creates = false;              // creates wait until release()
  std::optional<Error> fail_next_create;  // one create fails with this
  std::optional<Error> fail_destroys;     // every destroy fails with this
  std::vector<std::string> recovered_adopted;
  std::vector<std::string> recovered_destroyed;
  std::vector<nodeapi::TemplateT> templates;
  void release();
  // The sandbox ends by itself.
  void end_sandbox(const std::string& id, const std::string& reason, const std::string& tail);
  // A sandbox that nobody asked for.
  void add_stray(const std::string& id);

  // ---- what happened ----
  int creates = 0;
  int destroys = 0;
  std::vector<std::string> created_ids;

 private:
  async::Task<void> answer(rpc::Call call);
  async::Task<void> create(rpc::Call& call, const nodeapi::CreateSandboxT& request);
  async::Task<void> watch(rpc::Call& call);
  async::Task<void> build(rpc::Call& call, const std::string& name);

  async::Executor executor_;
  std::string path_;
  FakeSandboxes& sandboxes_;
  async::Event changed_;
  struct Watcher {
    std::vector<nodeapi::EventT> pending;
  };
  std::list<std::shared_ptr<Watcher>> watchers_;
  std::unique_ptr<rpc::Server> server_;
};

}  // namespace space::testkit
