// SPDX-License-Identifier: Apache-2.0
#pragma once
// Building templates from the agent: each build is a process of its own, `space-node build-template`,
// followed line by line. One build of a name at a time; who asks for a second one follows the first. Resource
// type; one loop.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "lib/async/blocking_pool.h"
#include "lib/async/task_scope.h"
#include "lib/base/clock.h"
#include "lib/obs/log.h"
#include "node/actions.h"
#include "node/template/store.h"

namespace space::node {

struct BuildSettings {
  std::string self = "/proc/self/exe";
  std::string cache_dir;
  std::string spaced;       // empty: as build-template finds it
  std::string mkinitramfs;  // likewise
};

class TemplateWork {
 public:
  TemplateWork(const async::Executor& executor, async::BlockingPool& pool, const obs::Log& log,
               tmpl::TemplateStore& store, BuildSettings settings);
  ~TemplateWork();

  async::Task<Result<std::vector<TemplateInfo>>> list();
  async::Task<Result<TemplateInfo>> build(std::string name, std::function<void(BuildProgress)> progress);
  // Errors: failed_precondition node.template_building; those of the store. Precondition: nobody uses it.
  async::Task<Result<void>> remove(std::string name);
  // Ends running builds.
  async::Task<void> stop();

 private:
  struct Build;
  async::Task<void> run(std::shared_ptr<Build> build);
  async::Task<Result<void>> follow(Build& build);
  [[nodiscard]] TemplateInfo info_of(const tmpl::StoreEntry& entry) const;

  async::Executor executor_;
  async::BlockingPool& pool_;
  const obs::Log& log_;
  tmpl::TemplateStore& store_;
  BuildSettings settings_;
  // Shared with the callers that follow a build beyond its end.
  std::map<std::string, std::shared_ptr<Build>> running_;
  std::map<std::string, std::string> failed_;  // why the last build failed
  async::TaskScope scope_;
};

}  // namespace space::node
