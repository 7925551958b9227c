// SPDX-License-Identifier: Apache-2.0
#pragma once
// Idempotency of requests that are no operations (a command started, a file moved): the first answer to a key
// is kept and given again.
//
// Two requests with one key at the same time: the second waits for the first. An answer that says "try again"
// (unavailable, deadline) is not kept. If this process dies between doing and keeping, the retry does it
// again: what is asked here is then repeated at most once, and a command, whose id comes from the key, not
// even that.
//
// Resource type; one loop. Posture: tenant-input.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "control/meta/store.h"
#include "control/operations/engine.h"
#include "lib/async/event.h"
#include "lib/base/clock.h"

namespace space::control {

// What a request was answered with: a status of 2xx and its body, or an error.
struct Answer {
  unsigned status = 200;
  std::string body;
};

class Remembered {
 public:
  Remembered(const async::Executor& executor, meta::Store& store, const Clock& clock)
      : executor_(executor), store_(store), clock_(clock) {}

  // Without a key `act` is simply done. Errors: control.idempotency_conflict, those of `act`.
  async::Task<Result<Answer>> once(TenantId tenant, std::optional<operations::IdempotencyKey> key,
                                   async::Task<Result<Answer>> act);

 private:
  using Place = std::pair<std::string, std::string>;  // tenant, key
  struct Turn;

  async::Executor executor_;
  meta::Store& store_;
  const Clock& clock_;
  std::map<Place, std::shared_ptr<async::Event>> under_way_;
};

}  // namespace space::control
