// SPDX-License-Identifier: Apache-2.0
#pragma once
// For tests: a Link on a loop, clients on both of its sockets, and machines made of real sockets whose far
// ends the test plays. A daemon behaves as its request tells it: see FakeMachine::answer.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/guest_generated.h"
#include "api/link_generated.h"
#include "lib/os/file.h"
#include "lib/os/random.h"
#include "lib/os/unix_socket.h"
#include "lib/rpc/client.h"
#include "lib/wire/message.h"
#include "link/link.h"

namespace space::link {

using namespace std::chrono_literals;
using async::Task;

template <class Body>
Bytes guest_request(Body body) {
  return wire::pack_body<guestapi::RequestT>(std::move(body));
}
template <class Body>
Bytes guest_reply(Body body) {
  return wire::pack_body<guestapi::ReplyT>(std::move(body));
}
inline guestapi::ExecT exec_of(std::string program, bool open_stdin = false) {
  guestapi::ExecT exec;
  exec.command_id = "c1";
  exec.argv = {std::move(program)};
  exec.open_stdin = open_stdin;
  return exec;
}
inline guestapi::StartedT started_reply() {
  guestapi::StartedT started;
  started.pid = 42;
  return started;
}
inline guestapi::ExitedT exited_reply(int code) {
  guestapi::ExitedT exited;
  exited.exit_code = code;
  return exited;
}
inline guestapi::FileInfoT file_reply(std::string path) {
  guestapi::FileInfoT info;
  info.path = std::move(path);
  info.kind = guestapi::FileKind::Regular;
  return info;
}

// What came back in a call, until its end.
struct Answer {
  Result<void> status;
  std::vector<Bytes> messages;
  std::map<int, std::string> data;
  [[nodiscard]] std::string reason() const { return status.ok() ? "ok" : status.error().reason; }
};

// One sandbox's far ends: the daemon, the VMM's machine socket, the console.
class FakeMachine {
 public:
  enum class Qmp { kHonest, kSilent, kGarbage, kHugeLine, kWrongNumber };

  FakeMachine(const async::Executor& executor, std::string id);
  // The near ends, for AttachSandbox. Once.
  std::vector<os::Fd> near_ends();
  // Answers calls on the channel as a daemon would.
  void start_daemon();
  void start_qmp() { scope_.spawn(serve_qmp()); }
  void say(std::string_view line);    // on the machine socket
  void print(std::string_view text);  // on the console
  Task<void> stop();

  std::string id;
  os::Fd channel;  // the far end, until start_daemon()
  Qmp qmp_mode = Qmp::kHonest;
  std::vector<std::string> qmp_commands;
  // What the daemon saw.
  std::uint64_t produced = 0;
  std::string received;
  int resets = 0;
  std::vector<guestapi::ControlBody> controls;

 private:
  Task<void> answer(rpc::Call call);
  Task<void> exec(rpc::Call& call, const guestapi::ExecT& request);
  Task<void> serve_qmp();

  async::Executor executor_;
  std::vector<os::Fd> near_;
  os::Fd qmp_;
  os::Fd console_;
  std::unique_ptr<rpc::Connection> daemon_;
  async::TaskScope scope_;
};

struct LinkTest : ::testing::Test {
  std::string dir;
  async::Loop loop;
  os::SystemRandom random;
  SystemClock clock;
  os::Fd log_file;
  std::unique_ptr<obs::Log> log;
  std::unique_ptr<Link> link;
  std::unique_ptr<rpc::Client> node;
  std::unique_ptr<rpc::Client> control;
  std::vector<std::unique_ptr<FakeMachine>> machines;

  void SetUp() override;
  void TearDown() override;
  // Runs `task`, then ends everything.
  void run(Task<void> task);
  Task<void> whole(Task<void> task);

  // A machine with QMP, and a daemon if wanted; not attached yet.
  FakeMachine& machine(char letter, bool daemon = true);
  Task<Result<void>> attach(FakeMachine& machine, std::uint64_t generation = 1);
  // The same sandbox on new sockets.
  Task<Result<Bytes>> node_call(Bytes request, std::chrono::milliseconds limit = 20s);
  Task<rpc::Call> start_call(const FakeMachine& machine, Bytes request, std::uint32_t deadline_ms = 10'000);
  // A whole call without input.
  Task<Answer> ask(const FakeMachine& machine, Bytes request, std::uint32_t deadline_ms = 10'000);
  std::string log_text() const { return *os::read_file(dir + "/log"); }
};

Task<Answer> collect(rpc::Call& call);
template <class Body>
Body message_as(const Bytes& message) {
  auto body = wire::unpack_body<guestapi::ReplyT, Body>(message);
  EXPECT_TRUE(body.ok());
  return body.ok() ? std::move(*body) : Body();
}
// Waits until `condition` holds.
template <class Condition>
Task<void> until(Condition condition) {
  while (!condition()) co_await async::sleep_for(1ms);
}

}  // namespace space::link
