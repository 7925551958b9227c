// SPDX-License-Identifier: Apache-2.0
#pragma once
// What happens to sandboxes, from where it is noticed to everybody who watches.
//
// A watcher holds at most one waiting event of each sandbox and kind: a VMM that repeats itself only changes
// the detail of the one that waits. So nothing grows, and no kind hides another.
//
// Resource types; one loop. Posture: internal; the details have been bounded by who raises.

#include <deque>
#include <memory>
#include <set>
#include <string>

#include "api/link_generated.h"
#include "lib/async/event.h"
#include "lib/async/task.h"
#include "lib/base/id.h"

namespace space::link {

struct SandboxEvent {
  SandboxId sandbox;
  linkapi::EventKind kind{};
  std::string detail;
};

class EventHub {
 public:
  // Sees every event that is raised while it exists.
  class Watcher {
   public:
    Watcher(const async::Executor& executor, EventHub& hub);
    ~Watcher();
    Watcher(const Watcher&) = delete;
    Watcher& operator=(const Watcher&) = delete;
    // The oldest event; waits for one.
    async::Task<SandboxEvent> next();

   private:
    friend class EventHub;
    EventHub& hub_;
    std::deque<SandboxEvent> waiting_;
    async::Event changed_;
  };

  EventHub() = default;
  EventHub(const EventHub&) = delete;
  EventHub& operator=(const EventHub&) = delete;
  void raise(const SandboxEvent& event);

 private:
  std::set<Watcher*> watchers_;
};

}  // namespace space::link
