// SPDX-License-Identifier: Apache-2.0
#include "node/recovery.h"

#include <set>

#include "lib/os/file.h"
#include "node/make_machine.h"

namespace space::node {

Result<Remains> find_remains(Environment& environment) {
  Remains remains;
  std::set<std::string> rubbish;
  std::set<std::string> known;
  SPACE_TRY(auto names, os::list_directory(environment.sandboxes_dir));
  for (const auto& name : names) {
    auto record = load_record(environment.sandboxes_dir + "/" + name);
    // A record counts only in the place that it speaks of.
    if (record.ok() && record->sandbox.str() == name) {
      known.insert(name);
      remains.records.push_back(std::move(*record));
    } else {
      rubbish.insert(name);
    }
  }
  SPACE_TRY(auto groups, environment.cgroups.list());
  for (const auto& group : groups) {
    if (!known.contains(group)) rubbish.insert(group);
  }
  remains.rubbish.assign(rubbish.begin(), rubbish.end());
  return remains;
}

std::vector<std::string> remove_rubbish(Environment& environment, const std::vector<std::string>& names) {
  std::vector<std::string> removed;
  for (const auto& name : names) {
    auto gone = unmake_machine(environment, SandboxId(name), -1);
    if (gone.ok()) {
      removed.push_back(name);
    } else {
      environment.log.error("rubbish_not_removed", {{"name", name}, {"error", gone.error().describe()}});
    }
  }
  return removed;
}

}  // namespace space::node
