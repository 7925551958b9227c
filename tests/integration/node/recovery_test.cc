// SPDX-License-Identifier: Apache-2.0
// The node dies at every named point of its work; the next one finishes or undoes it, and nothing is left.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>

#include "integration/node/node_fixture.h"
#include "lib/os/file.h"

namespace space::node::testing {
namespace fs = std::filesystem;
namespace {

class NodeRecovery : public NodeFixture {};

TEST_F(NodeRecovery, AdoptsWhatRan) {
  std::string id = new_id();
  auto before = create(id);
  ASSERT_TRUE(before.ok()) << before.error().describe();
  restart_node(SIGKILL);
  auto event = recovered();
  EXPECT_EQ(event.adopted, std::vector<std::string>{id});
  EXPECT_TRUE(event.destroyed.empty());
  auto after = list();
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(after[0].vmm_pid, before->vmm_pid);
  EXPECT_EQ(after[0].session, before->session);
  EXPECT_EQ(after[0].resources->memory_bytes, before->resources->memory_bytes);
  EXPECT_TRUE(after[0].adopted);
  ASSERT_TRUE(destroy(id).ok());
  expect_nothing_left();
}

TEST_F(NodeRecovery, AdoptsAfterAnOrderlyStopToo) {
  std::string id = new_id();
  ASSERT_TRUE(create(id).ok());
  restart_node(SIGTERM);
  EXPECT_EQ(recovered().adopted, std::vector<std::string>{id});
}

TEST_F(NodeRecovery, NoticesTheEndOfAnAdoptedMachine) {
  std::string id = new_id();
  auto info = create(id);
  ASSERT_TRUE(info.ok());
  restart_node(SIGKILL);
  auto event = ended(id, [&] { ::kill(static_cast<pid_t>(info->vmm_pid), SIGKILL); });
  ASSERT_TRUE(event.ok()) << event.error().describe();
  EXPECT_EQ(event->reason, "node.vmm_exited");
  // This process is the machine's parent now.
  ::waitpid(static_cast<pid_t>(info->vmm_pid), nullptr, 0);
  expect_nothing_left();
}

TEST_F(NodeRecovery, DestroysWhatEndedMeanwhile) {
  std::string id = new_id();
  auto info = create(id);
  ASSERT_TRUE(info.ok());
  node_.end(SIGKILL);
  ::kill(static_cast<pid_t>(info->vmm_pid), SIGKILL);
  ::waitpid(static_cast<pid_t>(info->vmm_pid), nullptr, 0);
  start_node();
  EXPECT_EQ(recovered().destroyed, std::vector<std::string>{id});
  expect_nothing_left();
}

TEST_F(NodeRecovery, RemovesWhatHasNoReadableRecord) {
  std::string stray = new_id();
  std::string spoilt = new_id();
  ASSERT_TRUE(create(spoilt).ok());
  recovered();
  node_.end(SIGKILL);
  fs::create_directories(node_dir() + "/sandboxes/" + stray + "/slot");
  os::write_file_atomic(node_dir() + "/sandboxes/" + spoilt + "/record.json", "{\"format\":1",
                        os::Durability::kBuffered)
      .value();
  start_node();
  auto event = recovered();
  EXPECT_TRUE(event.adopted.empty());
  EXPECT_EQ(event.destroyed.size(), 2U);
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  expect_nothing_left();
}

TEST_F(NodeRecovery, ARecordOfAnotherBootIsNotBelieved) {
  std::string id = new_id();
  ASSERT_TRUE(create(id).ok());
  node_.end(SIGKILL);
  std::string path = node_dir() + "/sandboxes/" + id + "/record.json";
  std::string text = *os::read_file(path);
  auto at = text.find("\"boot_id\":\"") + 11;
  text.replace(at, 8, "00000000");
  os::write_file_atomic(path, text, os::Durability::kBuffered).value();
  start_node();
  EXPECT_EQ(recovered().destroyed, std::vector<std::string>{id});
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  expect_nothing_left();
}

// ---- every point ----

class NodeDiesAt : public NodeFixture, public ::testing::WithParamInterface<const char*> {
 protected:
  // Lets the node die at the point while `work` runs, and starts it again.
  void die_during(const std::function<void()>& work) {
    node_.end(SIGTERM);
    start_node({{"SPACE_CRASH_AT", GetParam()}});
    work();
    int status = node_.wait();
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        << "the node did not reach " << GetParam();
    start_node();
  }
};

class NodeDiesCreatingAt : public NodeDiesAt {};
TEST_P(NodeDiesCreatingAt, TheNextOneAdoptsOrDestroys) {
  std::string id = new_id();
  die_during([&] { EXPECT_FALSE(create(id).ok()); });
  auto event = recovered();
  EXPECT_EQ(event.adopted.size() + event.destroyed.size(), 1U);
  EXPECT_EQ(list().size(), event.adopted.size());
  // Control asks again with the same id.
  auto again = create(id);
  ASSERT_TRUE(again.ok()) << again.error().describe();
  EXPECT_EQ(list().size(), 1U);
  ASSERT_TRUE(destroy(id).ok());
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  expect_nothing_left();
}
INSTANTIATE_TEST_SUITE_P(Points, NodeDiesCreatingAt,
                         ::testing::Values("create.directory", "create.record", "create.files",
                                           "create.cgroup", "create.held", "create.recorded",
                                           "create.released", "create.attached", "create.ready",
                                           "create.done"));

class NodeDiesDestroyingAt : public NodeDiesAt {};
TEST_P(NodeDiesDestroyingAt, TheNextOneFinishes) {
  std::string id = new_id();
  ASSERT_TRUE(create(id).ok());
  die_during([&] { EXPECT_FALSE(destroy(id).ok()); });
  auto event = recovered();
  EXPECT_TRUE(event.adopted.empty());
  EXPECT_TRUE(list().empty());
  auto again = destroy(id);
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->existed);
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  expect_nothing_left();
}
INSTANTIATE_TEST_SUITE_P(Points, NodeDiesDestroyingAt,
                         ::testing::Values("destroy.begun", "destroy.killed", "destroy.cgroup",
                                           "destroy.files"));

}  // namespace
}  // namespace space::node::testing
