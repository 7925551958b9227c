// SPDX-License-Identifier: Apache-2.0
#include "link/event_hub.h"

#include <algorithm>

namespace space::link {

EventHub::Watcher::Watcher(const async::Executor& executor, EventHub& hub) : hub_(hub), changed_(executor) {
  hub_.watchers_.insert(this);
}
EventHub::Watcher::~Watcher() {
  hub_.watchers_.erase(this);
}

async::Task<SandboxEvent> EventHub::Watcher::next() {
  while (waiting_.empty()) co_await changed_.wait();
  SandboxEvent event = std::move(waiting_.front());
  waiting_.pop_front();
  co_return event;
}

void EventHub::raise(const SandboxEvent& event) {
  for (Watcher* watcher : watchers_) {
    auto same =
        std::find_if(watcher->waiting_.begin(), watcher->waiting_.end(), [&](const SandboxEvent& waiting) {
          return waiting.sandbox == event.sandbox && waiting.kind == event.kind;
        });
    if (same != watcher->waiting_.end()) {
      same->detail = event.detail;
    } else {
      watcher->waiting_.push_back(event);
      watcher->changed_.notify_all();
    }
  }
}

}  // namespace space::link
