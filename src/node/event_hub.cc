// SPDX-License-Identifier: Apache-2.0
#include "node/event_hub.h"

namespace space::node {

class EventHub::Feed final : public EventFeed {
 public:
  explicit Feed(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) {}

  async::Task<Result<NodeEvent>> next() override {
    auto queue = queue_;
    while (!queue->lagging && (!queue->open || queue->events.empty())) co_await queue->changed.wait();
    if (queue->lagging) {
      co_return make_error(Code::kResourceExhausted, "node.watch_lagging",
                           "events were lost because they were not read in time; list and watch anew");
    }
    NodeEvent event = std::move(queue->events.front());
    queue->events.pop_front();
    co_return event;
  }

 private:
  std::shared_ptr<Queue> queue_;
};

void EventHub::push(Queue& queue, const NodeEvent& event) {
  if (queue.events.size() >= kMaxWaitingEvents) queue.lagging = true;
  if (!queue.lagging) queue.events.push_back(event);
  queue.changed.notify_all();
}

void EventHub::recovered(NodeEvent event) {
  recovered_ = std::move(event);
  for (auto& weak : queues_) {
    if (auto queue = weak.lock()) {
      // Before anything that has been raised meanwhile.
      queue->events.push_front(*recovered_);
      queue->open = true;
      queue->changed.notify_all();
    }
  }
}

void EventHub::raise(const NodeEvent& event) {
  bool heard = false;
  for (auto it = queues_.begin(); it != queues_.end();) {
    if (auto queue = it->lock()) {
      push(*queue, event);
      heard = true;
      ++it;
    } else {
      it = queues_.erase(it);
    }
  }
  if (heard) return;
  if (unheard_.size() >= kKeptEvents) unheard_.pop_front();
  unheard_.push_back(event);
}

std::unique_ptr<EventFeed> EventHub::subscribe() {
  auto queue = std::make_shared<Queue>(executor_);
  if (recovered_) queue->events.push_back(*recovered_);
  queue->open = recovered_.has_value();
  for (auto& event : unheard_) queue->events.push_back(std::move(event));
  unheard_.clear();
  queues_.push_back(queue);
  return std::make_unique<Feed>(std::move(queue));
}

}  // namespace space::node
