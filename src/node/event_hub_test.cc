// SPDX-License-Identifier: Apache-2.0
#include "node/event_hub.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>

namespace space::node {
namespace {

struct NodeEvents : ::testing::Test {
  async::Loop loop;
  EventHub hub{loop.get_executor()};

  static NodeEvent ended(const std::string& sandbox) {
    NodeEvent event;
    event.sandbox = SandboxId(sandbox);
    return event;
  }
  static NodeEvent recovered() {
    NodeEvent event;
    event.kind = NodeEvent::Kind::kRecovered;
    return event;
  }
  // What is there now, in order: "R" or the sandbox; the reason of an error.
  std::vector<std::string> heard(EventFeed& feed) {
    std::vector<std::string> all;
    boost::asio::co_spawn(
        loop,
        [](EventFeed& from, std::vector<std::string>& into) -> async::Task<void> {
          for (;;) {
            auto event = co_await from.next();
            if (!event.ok()) {
              into.push_back(event.error().reason);
              co_return;
            }
            into.push_back(event->kind == NodeEvent::Kind::kRecovered ? "R" : event->sandbox.str());
          }
        }(feed, all),
        [](std::exception_ptr) {});
    loop.restart();
    loop.poll();
    return all;
  }
};

TEST_F(NodeEvents, BeginWithRecoveredWhateverCameBefore) {
  auto feed = hub.subscribe();
  hub.raise(ended("a"));
  hub.recovered(recovered());
  EXPECT_EQ(heard(*feed), (std::vector<std::string>{"R", "a"}));
}

TEST_F(NodeEvents, WaitForRecovery) {
  auto feed = hub.subscribe();
  hub.raise(ended("a"));
  EXPECT_TRUE(heard(*feed).empty());
}

TEST_F(NodeEvents, ThatNobodyHeardAreKeptForTheNextWatcher) {
  hub.recovered(recovered());
  hub.raise(ended("a"));
  auto first = hub.subscribe();
  EXPECT_EQ(heard(*first), (std::vector<std::string>{"R", "a"}));
  auto second = hub.subscribe();
  EXPECT_EQ(heard(*second), (std::vector<std::string>{"R"}));
}

TEST_F(NodeEvents, GoToEveryWatcher) {
  hub.recovered(recovered());
  auto first = hub.subscribe();
  auto second = hub.subscribe();
  hub.raise(ended("a"));
  EXPECT_EQ(heard(*first), (std::vector<std::string>{"R", "a"}));
  EXPECT_EQ(heard(*second), (std::vector<std::string>{"R", "a"}));
}

TEST_F(NodeEvents, AWatcherThatDoesNotReadIsToldSoAndHoldsNoMore) {
  hub.recovered(recovered());
  auto feed = hub.subscribe();
  for (std::size_t i = 0; i < kMaxWaitingEvents + 10; ++i) hub.raise(ended("a"));
  EXPECT_EQ(heard(*feed), (std::vector<std::string>{"node.watch_lagging"}));
}

}  // namespace
}  // namespace space::node
