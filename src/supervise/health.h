// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the control plane says about itself, asked through its API like anybody else.

#include <string>
#include <vector>

#include "lib/async/task.h"
#include "lib/base/result.h"

namespace space::supervise {

struct Health {
  bool serving = false;  // it answers
  bool node = false;
  bool link = false;
  [[nodiscard]] bool ready() const { return serving && node && link; }
};

// What the node found at its start.
struct Recovery {
  bool known = false;  // the node has reported
  std::vector<std::string> adopted;
  std::vector<std::string> destroyed;
};

// Never an error: what can't be asked is not healthy. `url` is the API's base.
async::Task<Health> ask_health(std::string url);
async::Task<Recovery> ask_recovery(std::string url, std::string key);

}  // namespace space::supervise
