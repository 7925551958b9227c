// SPDX-License-Identifier: Apache-2.0
// Sandboxes of a node from its door to its remains, with the fake machine.
#include <signal.h>

#include <thread>

#include "integration/node/node_fixture.h"
#include "lib/os/file.h"
#include "lib/wire/message.h"

namespace space::node::testing {
namespace {

class NodeSandboxes : public NodeFixture {};

TEST_F(NodeSandboxes, AreReadyWhenCreateReturns) {
  std::string id = new_id();
  auto info = create(id);
  ASSERT_TRUE(info.ok()) << info.error().describe();
  EXPECT_EQ(info->sandbox, id);
  EXPECT_EQ(info->state, nodeapi::SandboxState::Running);
  EXPECT_EQ(info->backend, "fake");
  EXPECT_FALSE(info->adopted);
  ASSERT_EQ(list().size(), 1U);
}

TEST_F(NodeSandboxes, LeaveNothingBehind) {
  std::string id = new_id();
  ASSERT_TRUE(create(id).ok());
  auto destroyed = destroy(id);
  ASSERT_TRUE(destroyed.ok()) << destroyed.error().describe();
  EXPECT_TRUE(destroyed->existed);
  EXPECT_FALSE(destroyed->console_tail.empty());
  expect_nothing_left();
}

TEST_F(NodeSandboxes, AreCreatedOnceForOneId) {
  std::string id = new_id();
  auto first = create(id);
  ASSERT_TRUE(first.ok());
  auto second = create(id);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(first->vmm_pid, second->vmm_pid);
  auto other = create(id, [](auto& body) { body.session = "anothersession000000"; });
  EXPECT_EQ(other.error().reason, "node.sandbox_differs");
}

TEST_F(NodeSandboxes, DestroyingWhatIsNotThereIsSuccess) {
  auto destroyed = destroy(new_id());
  ASSERT_TRUE(destroyed.ok());
  EXPECT_FALSE(destroyed->existed);
}

TEST_F(NodeSandboxes, ImpossibleRequestsNameTheirField) {
  auto memory = create(new_id(), [](auto& body) { body.resources->memory_bytes = 1 << 20; });
  EXPECT_EQ(memory.error().field, "memory_bytes");
  auto huge = create(new_id(), [](auto& body) { body.resources->memory_bytes = 1ULL << 50; });
  EXPECT_EQ(huge.error().reason, "node.memory_too_large");
  auto vcpus = create(new_id(), [](auto& body) { body.resources->vcpus = 0; });
  EXPECT_EQ(vcpus.error().field, "vcpus");
  auto disk = create(new_id(), [](auto& body) { body.resources->disk_bytes = 4096; });
  EXPECT_EQ(disk.error().field, "disk_bytes");
  auto name = create(new_id(), [](auto& body) { body.hostname = "x console=ttyS1"; });
  EXPECT_EQ(name.error().field, "hostname");
  auto unknown = create(new_id(), [](auto& body) { body.template_name = "nope"; });
  EXPECT_EQ(unknown.error().code, Code::kNotFound);
  auto id = create("../../../../etc/passwd");
  EXPECT_EQ(id.error().field, "sandbox");
  expect_nothing_left();
}

TEST_F(NodeSandboxes, ThatMissTheirDeadlineAreRemoved) {
  auto late = create(new_id(), [](auto& body) { body.deadline_ms = 1; });
  EXPECT_EQ(late.error().reason, "node.create_deadline");
  expect_nothing_left();
}

TEST_F(NodeSandboxes, ThatEndByThemselvesAreReportedAndRemoved) {
  std::string id = new_id();
  auto info = create(id);
  ASSERT_TRUE(info.ok());
  auto event = ended(id, [&] { ::kill(static_cast<pid_t>(info->vmm_pid), SIGKILL); });
  ASSERT_TRUE(event.ok()) << event.error().describe();
  EXPECT_EQ(event->reason, "node.vmm_killed");
  EXPECT_FALSE(event->console_tail.empty());
  expect_nothing_left();
}

TEST_F(NodeSandboxes, GetTheirGuestsNewsWhenItIsGone) {
  std::string id = new_id();
  ASSERT_TRUE(create(id).ok());
  // The grace is used: the machine is asked to power down, and does.
  auto destroyed = destroy(id, 20'000);
  ASSERT_TRUE(destroyed.ok()) << destroyed.error().describe();
  expect_nothing_left();
}

TEST_F(NodeSandboxes, CanBeDestroyedWhileTheyStart) {
  // Without link nobody can become ready.
  link_.end(SIGSTOP == 0 ? 0 : SIGKILL);
  std::string id = new_id();
  Result<nodeapi::SandboxInfoT> outcome;
  std::thread creator([&] { outcome = create(id); });
  while (list().empty()) std::this_thread::yield();
  auto destroyed = destroy(id);
  creator.join();
  ASSERT_TRUE(destroyed.ok()) << destroyed.error().describe();
  EXPECT_TRUE(destroyed->existed);
  EXPECT_EQ(outcome.error().reason, "node.destroyed");
  start_link();
  expect_nothing_left();
}

TEST_F(NodeSandboxes, SurviveTheEndOfLink) {
  std::string id = new_id();
  auto before = create(id);
  ASSERT_TRUE(before.ok());
  link_.end(SIGKILL);
  start_link();
  while (log_text().find("sandbox_reattached") == std::string::npos) std::this_thread::yield();
  auto event = ended(id, [&] { ::kill(static_cast<pid_t>(before->vmm_pid), SIGKILL); });
  ASSERT_TRUE(event.ok()) << event.error().describe();
  expect_nothing_left();
}

TEST_F(NodeSandboxes, ShareTheMachinesMemoryButNoMoreThanThereIs) {
  auto info = call(wire::pack_body<nodeapi::RequestT>(nodeapi::GetInfoT{}));
  ASSERT_TRUE(info.ok());
  auto before = *wire::unpack_body<nodeapi::ReplyT, nodeapi::InfoT>(info->at(0));
  EXPECT_EQ(before.memory_committed_bytes, 0U);
  std::uint64_t most = before.memory_bytes / 16 * 9 / (1 << 20) * (1 << 20);
  ASSERT_TRUE(create(new_id(), [&](auto& body) { body.resources->memory_bytes = most; }).ok());
  auto second = create(new_id(), [&](auto& body) { body.resources->memory_bytes = most; });
  EXPECT_EQ(second.error().reason, "node.no_memory");
  EXPECT_EQ(second.error().code, Code::kResourceExhausted);
}

TEST_F(NodeSandboxes, KeepTheirTemplateFromBeingRemoved) {
  ASSERT_TRUE(create(new_id()).ok());
  nodeapi::RemoveTemplateT body;
  body.name = "test";
  auto removed = call(wire::pack_body<nodeapi::RequestT>(std::move(body)));
  EXPECT_EQ(removed.error().reason, "node.template_in_use");
}

}  // namespace
}  // namespace space::node::testing
