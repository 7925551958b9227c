// SPDX-License-Identifier: Apache-2.0
// The node's side of a running Link: readiness, VMM commands, events, consoles, detaching, and who may ask
// what.
#include <set>

#include "link/link_fixture.h"

namespace space::link {
namespace {

struct MachineTest : LinkTest {};

template <class Body>
Bytes request_of(Body body) {
  return wire::pack_body<linkapi::RequestT>(std::move(body));
}
Bytes machine_request(const FakeMachine& m, linkapi::MachineCommand command,
                      std::uint32_t deadline_ms = 5000) {
  linkapi::MachineT request;
  request.sandbox = m.id;
  request.command = command;
  request.deadline_ms = deadline_ms;
  return request_of(std::move(request));
}
Bytes ready_request(const FakeMachine& m, std::uint32_t deadline_ms) {
  linkapi::WaitReadyT request;
  request.sandbox = m.id;
  request.deadline_ms = deadline_ms;
  return request_of(std::move(request));
}
Bytes detach_request(const FakeMachine& m) {
  linkapi::DetachSandboxT request;
  request.sandbox = m.id;
  return request_of(std::move(request));
}
Bytes console_request(const FakeMachine& m, bool follow) {
  linkapi::ConsoleT request;
  request.sandbox = m.id;
  request.follow = follow;
  return request_of(std::move(request));
}
Bytes call_request(const FakeMachine& m) {
  linkapi::GuestCallT request;
  request.sandbox = m.id;
  return request_of(std::move(request));
}
template <class Body>
Body reply_of(const Result<Bytes>& answer) {
  EXPECT_TRUE(answer.ok());
  if (!answer.ok()) return Body();
  auto body = wire::unpack_body<linkapi::ReplyT, Body>(*answer);
  EXPECT_TRUE(body.ok());
  return body.ok() ? std::move(*body) : Body();
}
std::string reason_of(const Result<Bytes>& answer) {
  return answer.ok() ? "ok" : answer.error().reason;
}

Task<linkapi::EventT> next_event(rpc::Call& watch) {
  auto event = co_await watch.next();
  EXPECT_TRUE(event.ok());
  if (!event.ok()) co_return linkapi::EventT();
  co_return *wire::unpack_body<linkapi::ReplyT, linkapi::EventT>(std::get<rpc::Message>(*event).bytes);
}

Task<void> readiness(MachineTest& t) {
  auto& m = t.machine('a', false);
  EXPECT_TRUE((co_await t.attach(m)).ok());
  EXPECT_EQ(reason_of(co_await t.node_call(ready_request(m, 30))), "link.guest_not_answering");
  m.start_daemon();
  auto ready = reply_of<linkapi::GuestReadyT>(co_await t.node_call(ready_request(m, 5000)));
  EXPECT_EQ(ready.version, "fake");
  EXPECT_EQ(ready.kernel_boot_us, 5U);
  auto& stranger = t.machine('z');
  EXPECT_EQ(reason_of(co_await t.node_call(ready_request(stranger, 5000))), "link.no_such_sandbox");
}
TEST_F(MachineTest, ReadyMeansEchoAndHello) {
  run(readiness(*this));
}

Task<void> commands(MachineTest& t) {
  auto& m = t.machine('a');
  EXPECT_TRUE((co_await t.attach(m)).ok());
  using linkapi::MachineCommand;
  using linkapi::MachineState;
  auto state = [&](MachineCommand command) -> Task<MachineState> {
    co_return reply_of<linkapi::MachineStatusT>(co_await t.node_call(machine_request(m, command))).state;
  };
  EXPECT_EQ(co_await state(MachineCommand::QueryStatus), MachineState::Running);
  EXPECT_EQ(co_await state(MachineCommand::Stop), MachineState::Paused);
  EXPECT_EQ(co_await state(MachineCommand::Continue), MachineState::Running);
  EXPECT_EQ(co_await state(MachineCommand::PowerDown), MachineState::Running);
  EXPECT_EQ(co_await state(MachineCommand::Quit), MachineState::Shutdown);
  EXPECT_EQ(m.qmp_commands,
            (std::vector<std::string>{"qmp_capabilities", "query-status", "stop", "query-status", "cont",
                                      "query-status", "system_powerdown", "query-status", "quit"}));
  EXPECT_EQ(reason_of(co_await t.node_call(machine_request(m, MachineCommand::Stop))), "link.qmp_closed");
}
TEST_F(MachineTest, CommandsReachTheVmm) {
  run(commands(*this));
}

// A VMM that turns bad after its handshake.
Task<void> bad_vmm(MachineTest& t, FakeMachine::Qmp mode, std::string reason, bool closes) {
  auto& m = t.machine('a');
  EXPECT_TRUE((co_await t.attach(m)).ok());
  rpc::Call watch = std::move(*co_await t.node->start(request_of(linkapi::WatchT{})));
  m.qmp_mode = mode;
  EXPECT_EQ(reason_of(co_await t.node_call(machine_request(m, linkapi::MachineCommand::QueryStatus, 50))),
            reason);
  if (closes) {
    auto event = co_await next_event(watch);
    EXPECT_EQ(event.kind, linkapi::EventKind::QmpClosed);
    EXPECT_EQ(event.detail, "protocol error");
  }
  // The daemon is another matter.
  EXPECT_EQ((co_await t.ask(m, guest_request(exec_of("true")))).reason(), "ok");
}
TEST_F(MachineTest, AVmmThatIsSilent) {
  run(bad_vmm(*this, FakeMachine::Qmp::kSilent, "link.qmp_not_answering", false));
}
TEST_F(MachineTest, AVmmThatTalksGarbage) {
  run(bad_vmm(*this, FakeMachine::Qmp::kGarbage, "link.qmp_protocol", true));
}
TEST_F(MachineTest, AVmmThatNeverEndsItsLine) {
  run(bad_vmm(*this, FakeMachine::Qmp::kHugeLine, "link.qmp_protocol", true));
}
TEST_F(MachineTest, AVmmThatAnswersWhatWasNotAsked) {
  run(bad_vmm(*this, FakeMachine::Qmp::kWrongNumber, "link.qmp_protocol", true));
}

Task<void> late_answer(MachineTest& t) {
  auto& m = t.machine('a');
  EXPECT_TRUE((co_await t.attach(m)).ok());
  m.qmp_mode = FakeMachine::Qmp::kSilent;
  EXPECT_EQ(reason_of(co_await t.node_call(machine_request(m, linkapi::MachineCommand::QueryStatus, 30))),
            "link.qmp_not_answering");
  m.qmp_mode = FakeMachine::Qmp::kHonest;
  m.say(R"({"return": {"status": "paused"}, "id": 2})");  // the late one
  auto now = reply_of<linkapi::MachineStatusT>(
      co_await t.node_call(machine_request(m, linkapi::MachineCommand::QueryStatus)));
  EXPECT_EQ(now.state, linkapi::MachineState::Running);
}
TEST_F(MachineTest, ALateAnswerIsNotTakenForAnother) {
  run(late_answer(*this));
}

Task<void> attach_without_vmm(MachineTest& t) {
  t.machines.push_back(std::make_unique<FakeMachine>(t.loop.get_executor(), std::string(20, 'a')));
  auto& m = *t.machines.back();
  m.say("this is no greeting");
  auto attached = co_await t.attach(m);
  EXPECT_FALSE(attached.ok());
  if (!attached.ok()) EXPECT_EQ(attached.error().reason, "link.qmp_protocol");
  EXPECT_EQ((co_await t.ask(m, guest_request(exec_of("true")))).reason(), "link.no_such_sandbox");
}
TEST_F(MachineTest, WithoutAVmmNothingIsAttached) {
  run(attach_without_vmm(*this));
}

Task<void> events(MachineTest& t) {
  auto& m = t.machine('a');
  EXPECT_TRUE((co_await t.attach(m)).ok());
  rpc::Call watch = std::move(*co_await t.node->start(request_of(linkapi::WatchT{})));
  // Calls are begun in order: when this one is answered, the watch is there.
  EXPECT_EQ(reason_of(co_await t.node_call(machine_request(m, linkapi::MachineCommand::QueryStatus))), "ok");
  m.say(R"({"event": "GUEST_PANICKED", "data": {"action": "pause"}})");
  EXPECT_EQ((co_await next_event(watch)).kind, linkapi::EventKind::GuestPanicked);
  m.say(R"({"event": "SHUTDOWN", "data": {"guest": true, "reason": "guest-shutdown"}})");
  auto down = co_await next_event(watch);
  EXPECT_EQ(down.kind, linkapi::EventKind::GuestShutdown);
  EXPECT_EQ(down.detail, "guest-shutdown");
  EXPECT_EQ(down.sandbox, m.id);
  co_await m.stop();
  std::set<linkapi::EventKind> ends;
  ends.insert((co_await next_event(watch)).kind);
  ends.insert((co_await next_event(watch)).kind);
  EXPECT_EQ(ends, (std::set{linkapi::EventKind::QmpClosed, linkapi::EventKind::ChannelClosed}));
  EXPECT_EQ((co_await t.ask(m, guest_request(exec_of("true")))).reason(), "link.sandbox_gone");
}
TEST_F(MachineTest, EventsOfVmmsReachTheWatcher) {
  run(events(*this));
}

Task<void> consoles(MachineTest& t) {
  auto& m = t.machine('a');
  EXPECT_TRUE((co_await t.attach(m)).ok());
  rpc::Call follower = std::move(*co_await t.control->start(console_request(m, true)));
  m.print("one\x1b ");
  Result<rpc::CallEvent> event = co_await follower.next();
  EXPECT_TRUE(event.ok());
  std::string seen = to_text(std::get<rpc::Data>(*event).bytes);
  rpc::Call once = std::move(*co_await t.control->start(console_request(m, false)));
  EXPECT_EQ((co_await collect(once)).data[1], "one\x1b ");

  // The text and its followers outlive a reattachment.
  auto& again = t.machine('a');
  EXPECT_TRUE((co_await t.attach(again)).ok());
  again.print("two");
  auto tail = reply_of<linkapi::ConsoleTailT>(co_await t.node_call(detach_request(again)));
  EXPECT_EQ(std::string(tail.text.begin(), tail.text.end()), "one\x1b two");
  Answer rest = co_await collect(follower);
  EXPECT_EQ(rest.reason(), "ok");
  EXPECT_EQ(seen + rest.data[1], "one\x1b two");
  EXPECT_EQ(reason_of(co_await t.node_call(detach_request(again))), "link.no_such_sandbox");
}
TEST_F(MachineTest, ConsolesAreFollowedAndKept) {
  run(consoles(*this));
}

Task<void> detach(MachineTest& t) {
  auto& m = t.machine('a');
  EXPECT_TRUE((co_await t.attach(m)).ok());
  rpc::Call call = co_await t.start_call(m, guest_request(exec_of("hang")));
  (co_await call.next()).ignore("Started");
  EXPECT_EQ(reason_of(co_await t.node_call(detach_request(m))), "ok");
  EXPECT_EQ((co_await collect(call)).reason(), "link.sandbox_gone");
  EXPECT_EQ((co_await t.ask(m, guest_request(exec_of("true")))).reason(), "link.no_such_sandbox");
}
TEST_F(MachineTest, DetachingEndsTheCalls) {
  run(detach(*this));
}

Task<void> rights(MachineTest& t) {
  auto& m = t.machine('a');
  EXPECT_TRUE((co_await t.attach(m)).ok());
  EXPECT_EQ(reason_of(co_await t.node_call(call_request(m))), "link.wrong_socket");
  EXPECT_EQ(reason_of(co_await t.node_call(console_request(m, false))), "link.wrong_socket");
  auto from_control = [&](Bytes request) -> Task<std::string> {
    co_return reason_of(co_await t.control->unary(std::move(request), 5s));
  };
  EXPECT_EQ(co_await from_control(machine_request(m, linkapi::MachineCommand::Quit)), "link.wrong_socket");
  EXPECT_EQ(co_await from_control(detach_request(m)), "link.wrong_socket");
  EXPECT_EQ(co_await from_control(ready_request(m, 10)), "link.wrong_socket");
  EXPECT_EQ(co_await from_control(request_of(linkapi::WatchT{})), "link.wrong_socket");
  EXPECT_EQ(co_await from_control(to_bytes("garbage garbage")), "link.malformed_request");
  auto& other = t.machine('b');
  linkapi::AttachSandboxT attach;
  attach.sandbox = other.id;
  auto attached = co_await t.control->unary(request_of(std::move(attach)), 5s, other.near_ends());
  EXPECT_EQ(reason_of(attached), "link.wrong_socket");
}
TEST_F(MachineTest, EachSocketHasItsOwnRights) {
  run(rights(*this));
}

Task<void> no_descriptors(MachineTest& t) {
  linkapi::AttachSandboxT attach;
  attach.sandbox = std::string(20, 'a');
  EXPECT_EQ(reason_of(co_await t.node_call(request_of(std::move(attach)))), "rpc.missing_descriptors");
}
TEST_F(MachineTest, AttachingNeedsTheSockets) {
  run(no_descriptors(*this));
}

}  // namespace
}  // namespace space::link
