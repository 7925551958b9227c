// SPDX-License-Identifier: Apache-2.0
// Calls through a running Link to daemons that are honest, silent, slow or gone.
#include "link/link_fixture.h"

namespace space::link {
namespace {

struct RelayTest : LinkTest {};

Task<void> every_kind(RelayTest& t) {
  auto& m = t.machine('a');
  EXPECT_TRUE((co_await t.attach(m)).ok());
  Answer exec = co_await t.ask(m, guest_request(exec_of("fail")));
  EXPECT_EQ(exec.reason(), "ok");
  EXPECT_EQ(exec.data[1], "out");
  EXPECT_EQ(exec.data[2], "err");
  EXPECT_EQ(message_as<guestapi::StartedT>(exec.messages.at(0)).pid, 42U);
  EXPECT_EQ(message_as<guestapi::ExitedT>(exec.messages.at(1)).exit_code, 7);

  guestapi::AttachT attach;
  attach.command_id = "c1";
  Answer attached = co_await t.ask(m, guest_request(std::move(attach)));
  EXPECT_EQ(attached.data[1], "kept");
  EXPECT_EQ(attached.messages.size(), 2U);

  Answer list = co_await t.ask(m, guest_request(guestapi::ListCommandsT{}));
  EXPECT_EQ(message_as<guestapi::CommandInfoT>(list.messages.at(0)).command_id, "c1");

  guestapi::ReadFileT read;
  read.path = "/f";
  Answer content = co_await t.ask(m, guest_request(std::move(read)));
  EXPECT_EQ(content.data[1], "content");
  EXPECT_EQ(message_as<guestapi::FileInfoT>(content.messages.at(0)).path, "/f");

  guestapi::ListDirectoryT directory;
  directory.path = "/";
  Answer page = co_await t.ask(m, guest_request(std::move(directory)));
  EXPECT_EQ(message_as<guestapi::DirectoryPageT>(page.messages.at(0)).entries.at(0)->path, "name");

  guestapi::StatFileT stat;
  stat.path = "/g";
  EXPECT_EQ(
      message_as<guestapi::FileInfoT>((co_await t.ask(m, guest_request(std::move(stat)))).messages.at(0))
          .path,
      "/g");

  guestapi::WatchFilesT watch;
  watch.path = "/w";
  EXPECT_EQ((co_await t.ask(m, guest_request(std::move(watch)))).messages.size(), 2U);

  guestapi::ConnectT connect;
  connect.port = 80;
  EXPECT_EQ((co_await t.ask(m, guest_request(std::move(connect)))).data[1], "network");

  EXPECT_EQ((co_await t.ask(m, guest_request(guestapi::HelloT{}))).messages.size(), 1U);
  EXPECT_EQ((co_await t.ask(m, guest_request(guestapi::GetMetricsT{}))).messages.size(), 1U);

  guestapi::SignalCommandT signal;
  signal.command_id = "c1";
  EXPECT_EQ((co_await t.ask(m, guest_request(std::move(signal)))).reason(), "ok");
  guestapi::MoveFileT move;
  move.from = "/a";
  move.to = "/b";
  EXPECT_EQ((co_await t.ask(m, guest_request(std::move(move)))).reason(), "ok");
  guestapi::RemoveFileT remove;
  remove.path = "/a";
  EXPECT_EQ((co_await t.ask(m, guest_request(std::move(remove)))).reason(), "ok");
  guestapi::MakeDirectoryT make;
  make.path = "/d";
  EXPECT_EQ((co_await t.ask(m, guest_request(std::move(make)))).reason(), "ok");
  EXPECT_EQ((co_await t.ask(m, guest_request(guestapi::ShutdownT{}))).reason(), "ok");
}
TEST_F(RelayTest, EveryKindOfRequestIsRelayed) {
  run(every_kind(*this));
  std::string text = log_text();
  EXPECT_NE(text.find("\"kind\":\"Exec\""), std::string::npos);
  EXPECT_NE(text.find("\"kind\":\"ReadFile\""), std::string::npos);
  EXPECT_EQ(text.find("content"), std::string::npos);  // payload is never logged
}

Task<void> feed(rpc::Call& call, const std::string& data) {
  (co_await call.send_data(0, as_bytes(data))).ignore("the reader checks");
  call.end();
}
Task<void> both_ways(RelayTest& t) {
  auto& m = t.machine('a');
  EXPECT_TRUE((co_await t.attach(m)).ok());
  rpc::Call call = co_await t.start_call(m, guest_request(exec_of("cat", true)));
  EXPECT_TRUE((co_await call.send_message(wire::pack_body<guestapi::ControlT>(guestapi::ResizeT{}))).ok());
  std::string data(5'000'000, 0);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7 + i / 250);
  async::TaskScope scope(t.loop.get_executor());
  scope.spawn(feed(call, data));
  Answer answer = co_await collect(call);
  EXPECT_EQ(answer.reason(), "ok");
  EXPECT_EQ(answer.data[1], data);
  EXPECT_EQ(m.controls.size(), 1U);
  co_await scope.drain();
}
TEST_F(RelayTest, StreamsBothWaysKeepEveryByteAndHalfCloses) {
  run(both_ways(*this));
}

Task<void> upload(RelayTest& t) {
  auto& m = t.machine('a');
  EXPECT_TRUE((co_await t.attach(m)).ok());
  guestapi::WriteFileT write;
  write.path = "/f";
  rpc::Call call = co_await t.start_call(m, guest_request(std::move(write)), 100);
  // The client takes longer than the daemon may.
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE((co_await call.send_data(0, as_bytes("part "))).ok());
    co_await async::sleep_for(60ms);
  }
  call.end();
  Answer answer = co_await collect(call);
  EXPECT_EQ(answer.reason(), "ok");
  EXPECT_EQ(m.received, "part part part part part ");
}
TEST_F(RelayTest, TheDeadlineOfAnUploadIsTheDaemonsAlone) {
  run(upload(*this));
}

Task<void> stuck_upload(RelayTest& t) {
  auto& m = t.machine('a');
  EXPECT_TRUE((co_await t.attach(m)).ok());
  guestapi::WriteFileT write;
  write.path = "/never-read";
  rpc::Call call = co_await t.start_call(m, guest_request(std::move(write)), 50);
  async::TaskScope scope(t.loop.get_executor());
  const std::string data(4'000'000, 'x');
  scope.spawn(feed(call, data));
  EXPECT_EQ((co_await collect(call)).reason(), "link.guest_not_answering");
  co_await scope.drain();
}
TEST_F(RelayTest, ADaemonThatDoesNotTakeAnUploadIsLate) {
  run(stuck_upload(*this));
}

Task<void> silent(RelayTest& t) {
  auto& m = t.machine('a');
  EXPECT_TRUE((co_await t.attach(m)).ok());
  EXPECT_EQ((co_await t.ask(m, guest_request(exec_of("silent")), 50)).reason(), "link.guest_not_answering");
  // One silent call is no silent daemon.
  EXPECT_EQ((co_await t.ask(m, guest_request(exec_of("true")))).reason(), "ok");
  // Without an echo nothing is answered.
  auto& dead = t.machine('b', false);
  EXPECT_TRUE((co_await t.attach(dead)).ok());
  EXPECT_EQ((co_await t.ask(dead, guest_request(exec_of("true")), 50)).reason(), "link.guest_not_answering");
}
TEST_F(RelayTest, ASilentDaemonIsAnErrorInTime) {
  run(silent(*this));
}

Task<void> late_boot(RelayTest& t) {
  auto& m = t.machine('a', false);
  EXPECT_TRUE((co_await t.attach(m)).ok());
  rpc::Call early = co_await t.start_call(m, guest_request(exec_of("true")));
  co_await async::sleep_for(30ms);
  m.start_daemon();
  EXPECT_EQ((co_await collect(early)).reason(), "ok");
}
TEST_F(RelayTest, ACallWaitsForADaemonThatIsStillBooting) {
  run(late_boot(*this));
}

Task<void> slow_reader(RelayTest& t) {
  auto& m = t.machine('a');
  EXPECT_TRUE((co_await t.attach(m)).ok());
  rpc::Call call = co_await t.start_call(m, guest_request(exec_of("flood")));
  std::uint64_t consumed = 0;
  while (consumed < 64U << 20) {
    auto event = co_await call.next();
    EXPECT_TRUE(event.ok());
    if (!event.ok()) break;
    if (auto* data = std::get_if<rpc::Data>(&*event)) consumed += data->bytes.size();
    if (consumed % (8U << 20) != 0) continue;
    std::uint64_t before = 0;
    do {  // until the daemon stands still
      before = m.produced;
      co_await async::sleep_for(5ms);
    } while (m.produced != before);
    // A window on each hop, and what is in the pumps' hands.
    EXPECT_LE(m.produced - consumed, 2 * wire::kWindowBytes + 2 * wire::kMaxPayloadBytes);
  }
  call.reset();
}
TEST_F(RelayTest, AFloodWaitsForASlowReaderWithinTwoWindows) {
  run(slow_reader(*this));
}

Task<void> client_leaves(RelayTest& t) {
  auto& m = t.machine('a');
  EXPECT_TRUE((co_await t.attach(m)).ok());
  {
    rpc::Call call = co_await t.start_call(m, guest_request(exec_of("hang", true)));
    (co_await call.next()).ignore("Started");
  }
  co_await until([&] { return m.resets == 1; });
  {
    rpc::Call call = co_await t.start_call(m, guest_request(exec_of("hang", true)));
    (co_await call.next()).ignore("Started");
    call.end();
    co_await async::sleep_for(10ms);
  }
  co_await until([&] { return m.resets == 2; });
}
TEST_F(RelayTest, AClientThatLeavesResetsTheDaemonsCallAlsoAfterItsEnd) {
  run(client_leaves(*this));
}

Task<void> connection_breaks(RelayTest& t) {
  auto& m = t.machine('a');
  EXPECT_TRUE((co_await t.attach(m)).ok());
  rpc::Call call = co_await t.start_call(m, guest_request(exec_of("hang", true)));
  (co_await call.next()).ignore("Started");
  co_await t.control->stop();
  co_await until([&] { return m.resets == 1; });
  EXPECT_EQ((co_await t.ask(m, guest_request(exec_of("true")))).reason(), "ok");
}
TEST_F(RelayTest, ALostConnectionResetsTheDaemonsCalls) {
  run(connection_breaks(*this));
}

Task<void> daemon_gives_up(RelayTest& t) {
  auto& m = t.machine('a');
  EXPECT_TRUE((co_await t.attach(m)).ok());
  EXPECT_EQ((co_await t.ask(m, guest_request(exec_of("vanish")))).reason(), "link.guest_reset");
  Answer evil = co_await t.ask(m, guest_request(exec_of("status-evil")));
  EXPECT_EQ(evil.reason(), "guest.invalid_reason");
  EXPECT_EQ(evil.status.error().message, "line\\x0aand \\x1b[31mcolour");
  EXPECT_EQ((co_await t.ask(m, guest_request(exec_of("true")))).reason(), "ok");
}
TEST_F(RelayTest, ErrorsOfTheDaemonAreCleanedAndEndOneCall) {
  run(daemon_gives_up(*this));
}

Task<void> bad_requests(RelayTest& t) {
  auto& m = t.machine('a');
  EXPECT_TRUE((co_await t.attach(m)).ok());
  EXPECT_EQ((co_await t.ask(m, to_bytes("nonsense nonsense"))).reason(), "link.malformed_request");
  FakeMachine stranger(t.loop.get_executor(), std::string(20, 'z'));
  EXPECT_EQ((co_await t.ask(stranger, guest_request(exec_of("true")))).reason(), "link.no_such_sandbox");
  FakeMachine nobody(t.loop.get_executor(), "../x");
  EXPECT_EQ((co_await t.ask(nobody, guest_request(exec_of("true")))).reason(), "base.malformed_id");
  // Input that the call doesn't take.
  rpc::Call call = co_await t.start_call(m, guest_request(exec_of("hang")));
  EXPECT_TRUE((co_await call.send_data(0, as_bytes("x"))).ok());
  EXPECT_EQ((co_await collect(call)).reason(), "link.unexpected_input");
  rpc::Call garbled = co_await t.start_call(m, guest_request(exec_of("hang")));
  EXPECT_TRUE((co_await garbled.send_message(to_bytes("garbage garbage"))).ok());
  EXPECT_EQ((co_await collect(garbled)).reason(), "link.malformed_message");
  EXPECT_EQ((co_await t.ask(m, guest_request(exec_of("true")))).reason(), "ok");
}
TEST_F(RelayTest, ClientsMistakesEndTheirOwnCall) {
  run(bad_requests(*this));
}

Task<void> too_many(RelayTest& t) {
  auto& m = t.machine('a');
  EXPECT_TRUE((co_await t.attach(m)).ok());
  std::vector<rpc::Call> calls;
  for (std::size_t i = 0; i < kMaxCallsPerSandbox; ++i) {
    calls.push_back(co_await t.start_call(m, guest_request(exec_of("hang"))));
    (co_await calls.back().next()).ignore("Started");
  }
  EXPECT_EQ((co_await t.ask(m, guest_request(exec_of("true")))).reason(), "link.too_many_calls");
  auto& other = t.machine('b');
  EXPECT_TRUE((co_await t.attach(other)).ok());
  EXPECT_EQ((co_await t.ask(other, guest_request(exec_of("true")))).reason(), "ok");
  calls.clear();
  co_await until([&] { return m.resets == static_cast<int>(kMaxCallsPerSandbox); });
  EXPECT_EQ((co_await t.ask(m, guest_request(exec_of("true")))).reason(), "ok");
}
TEST_F(RelayTest, ASandboxTakesSixtyFourCallsAtOnce) {
  run(too_many(*this));
}

}  // namespace
}  // namespace space::link
