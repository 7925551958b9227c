// SPDX-License-Identifier: Apache-2.0
#pragma once
// The node's events, for everybody who watches. The first event of every feed is Recovered, once recovery is
// done. Endings that nobody was there to hear are kept (the newest kKept) for the first who comes. Resource
// type; one loop.

#include <deque>
#include <list>
#include <memory>
#include <optional>

#include "lib/async/event.h"
#include "node/actions.h"

namespace space::node {

inline constexpr std::size_t kKeptEvents = 256;
inline constexpr std::size_t kMaxWaitingEvents = 1024;  // of one feed; with console tails up to 48 MiB

class EventHub {
 public:
  explicit EventHub(const async::Executor& executor) : executor_(executor) {}
  EventHub(const EventHub&) = delete;
  EventHub& operator=(const EventHub&) = delete;

  // Once.
  void recovered(NodeEvent event);
  void raise(const NodeEvent& event);
  std::unique_ptr<EventFeed> subscribe();

 private:
  class Feed;
  struct Queue {
    explicit Queue(const async::Executor& executor) : changed(executor) {}
    std::deque<NodeEvent> events;
    bool open = false;  // Recovered is in it
    bool lagging = false;
    async::Event changed;
  };
  void push(Queue& queue, const NodeEvent& event);

  async::Executor executor_;
  std::optional<NodeEvent> recovered_;
  std::deque<NodeEvent> unheard_;
  // Weak: a feed may outlive the hub and the other way round.
  std::list<std::weak_ptr<Queue>> queues_;
};

}  // namespace space::node
