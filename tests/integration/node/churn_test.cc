// SPDX-License-Identifier: Apache-2.0
// Many sandboxes come and go; what the node holds of the machine stays the same.
#include <sys/wait.h>

#include <thread>

#include "integration/node/qemu_fixture.h"

namespace space::node::testing {
namespace {

// Connections of the test itself are noticed as closed a moment later.
template <class Take>
Footprint settled(const Footprint& wanted, Take take) {
  Footprint now = take();
  for (auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
       now != wanted && std::chrono::steady_clock::now() < deadline;) {
    std::this_thread::yield();
    now = take();
  }
  return now;
}

class NodeChurn : public NodeFixture {
 protected:
  void round() {
    std::string id = new_id();
    auto info = create(id);
    ASSERT_TRUE(info.ok()) << info.error().describe();
    auto destroyed = destroy(id);
    ASSERT_TRUE(destroyed.ok()) << destroyed.error().describe();
  }
};

TEST_F(NodeChurn, TwoHundredRoundsLeaveTheNodeAsItWas) {
  constexpr int kRounds = 200;
  // What is made once (pools, connections) is there after the first.
  round();
  Footprint before = footprint();
  for (int i = 0; i < kRounds && !HasFatalFailure(); ++i) round();
  EXPECT_EQ(settled(before, [this] { return footprint(); }), before);
  expect_nothing_left();
}

TEST_F(NodeChurn, TwentyAtOnceComeAndGo) {
  constexpr int kMany = 20;
  round();
  Footprint before = footprint();
  std::vector<std::string> ids;
  std::vector<std::thread> creators;
  std::vector<Result<nodeapi::SandboxInfoT>> made(kMany);
  for (int i = 0; i < kMany; ++i) ids.push_back(new_id());
  for (int i = 0; i < kMany; ++i)
    creators.emplace_back(
        [&, i] { made[static_cast<std::size_t>(i)] = create(ids[static_cast<std::size_t>(i)]); });
  for (auto& creator : creators) creator.join();
  for (const auto& one : made) EXPECT_TRUE(one.ok()) << (one.ok() ? std::string() : one.error().describe());
  EXPECT_EQ(list().size(), static_cast<std::size_t>(kMany));
  for (const auto& id : ids) EXPECT_TRUE(destroy(id).ok());
  EXPECT_EQ(settled(before, [this] { return footprint(); }), before);
  expect_nothing_left();
}

class NodeQemuChurn : public QemuFixture {};
TEST_F(NodeQemuChurn, TwoHundredGuestsLeaveTheNodeAsItWas) {
  constexpr int kRounds = 200;
  std::string first = new_id();
  ASSERT_TRUE(boot(first).ok());
  ASSERT_TRUE(destroy(first).ok());
  Footprint before = footprint();
  for (int i = 0; i < kRounds && !HasFailure(); ++i) {
    std::string id = new_id();
    auto info = boot(id);
    ASSERT_TRUE(info.ok()) << i << ": " << info.error().describe();
    ASSERT_TRUE(destroy(id).ok());
  }
  EXPECT_EQ(settled(before, [this] { return footprint(); }), before);
  expect_nothing_left();
}

}  // namespace
}  // namespace space::node::testing
