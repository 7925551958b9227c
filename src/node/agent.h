// SPDX-License-Identifier: Apache-2.0
#pragma once
// The node agent: the table of sandboxes behind the door of actions.h, and what happens at its start.
//
// start() first looks at what an earlier process left: sandboxes with a record are adopted or destroyed,
// everything without one is removed. Only then new ones are made; the Recovered event tells the result.
// stop() leaves running machines running, for the next process.
//
// Resource type; one loop. Call stop() and wait before it goes.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/async/task_scope.h"
#include "node/actions.h"
#include "node/environment.h"
#include "node/event_hub.h"
#include "node/sandbox_life.h"
#include "node/slot/uid_pool.h"
#include "node/template_work.h"

namespace space::node {

class Agent final : public Actions {
 public:
  // All outlive it.
  Agent(Environment& environment, slot::UidPool& uids, tmpl::TemplateStore& store, TemplateWork& templates,
        std::string version);
  ~Agent() override;

  void start();
  async::Task<void> stop();
  async::Task<void> wait_recovered();

  async::Task<Result<SandboxInfo>> create(CreateSandbox request) override;
  async::Task<Result<DestroyedSandbox>> destroy(SandboxId sandbox, std::chrono::milliseconds grace) override;
  [[nodiscard]] std::vector<SandboxInfo> list() const override;
  std::unique_ptr<EventFeed> watch() override { return hub_.subscribe(); }
  async::Task<Result<NodeInfo>> info() override;
  async::Task<Result<std::vector<TemplateInfo>>> list_templates() override { return templates_.list(); }
  async::Task<Result<TemplateInfo>> build_template(std::string name,
                                                   std::function<void(BuildProgress)> progress) override {
    return templates_.build(std::move(name), std::move(progress));
  }
  async::Task<Result<void>> remove_template(std::string name) override;

 private:
  using Lives = std::map<SandboxId, std::shared_ptr<SandboxLife>>;

  async::Task<void> recover();
  async::Task<void> live(std::shared_ptr<SandboxLife> life);
  async::Task<Result<SandboxInfo>> started(std::shared_ptr<SandboxLife> life);
  void on_link_event(const LinkEvent& event);
  void on_link_connected();
  [[nodiscard]] std::uint64_t memory_committed_bytes() const;

  Environment& environment_;
  slot::UidPool& uids_;
  tmpl::TemplateStore& store_;
  TemplateWork& templates_;
  std::string version_;
  EventHub hub_;
  Lives lives_;
  bool recovered_ = false;
  async::Event changed_;
  async::TaskScope scope_;
};

}  // namespace space::node
