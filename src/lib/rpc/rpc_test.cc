// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>

#include "lib/os/file.h"
#include "lib/os/unix_socket.h"
#include "lib/rpc/client.h"
#include "lib/rpc/server.h"

namespace space::rpc {
namespace {

using namespace std::chrono_literals;
using async::Task;

// A server whose calls are told what to do by their request.
struct RpcTest : ::testing::Test {
  std::string dir;
  std::string path;
  async::Loop loop;
  os::SystemRandom random;
  std::unique_ptr<Server> server;
  int cancelled_handlers = 0;
  std::size_t produced = 0;

  void SetUp() override {
    char pattern[] = "/tmp/space-rpc-XXXXXX";
    dir = ::mkdtemp(pattern);
    path = dir + "/s.sock";
    listen();
  }
  void TearDown() override { os::remove_tree(dir).ignore("test clean-up"); }
  void listen() {
    server = std::make_unique<Server>(loop.get_executor(), *os::listen_unix(path), [this](Call call) { return answer(std::move(call)); });
    server->start();
  }

  Task<void> answer(Call call) {
    std::string what = to_text(call.request());
    if (what == "fail") {
      call.finish(make_error(Code::kNotFound, "test.nothing", "nothing here"));
    } else if (what == "fd") {
      auto fds = call.take_fds(1);
      (co_await call.send_message(to_bytes(*os::read_file("/proc/self/fd/" + std::to_string(fds->at(0).get()))))).ignore("test");
      call.finish({});
    } else if (what == "vanish") {
      co_return;
    } else if (what == "hang") {
      struct Note {
        int& count;
        ~Note() { ++count; }
      } note{cancelled_handlers};
      (co_await call.next()).ignore("waits for ever");
    } else if (what == "flood") {
      std::string block(100'000, 'f');
      while ((co_await call.send_data(1, as_bytes(block))).ok()) produced += block.size();
    } else {  // echo
      for (;;) {
        auto event = co_await call.next();
        if (!event.ok()) co_return;
        if (auto* data = std::get_if<Data>(&*event)) (co_await call.send_data(data->channel, data->bytes)).ignore("test");
        if (std::holds_alternative<End>(*event)) break;
      }
      (co_await call.send_message(to_bytes("done"))).ignore("test");
      call.finish({});
    }
  }

  // Runs `task`, stops the server and drains the loop.
  void run(Task<void> task) {
    boost::asio::co_spawn(loop, whole(std::move(task)), [](std::exception_ptr e) {
      if (e) std::rethrow_exception(e);
    });
    loop.run();
  }
  Task<void> whole(Task<void> task) {
    co_await std::move(task);
    co_await server->stop();
  }
};

Task<void> sender(Call& call, const std::string& data) {
  for (std::size_t at = 0; at < data.size(); at += 70'001) {
    (co_await call.send_data(3, as_bytes(std::string_view(data).substr(at, 70'001)))).ignore("checked by the reader");
  }
  call.end();
}

Task<void> echo_case(RpcTest& t) {
  Client client(t.loop.get_executor(), t.random, "test", Client::to_path(t.path));
  Call call = *co_await client.start(to_bytes("echo"));
  std::string data(3'000'000, 'x');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7 + i / 256);
  async::TaskScope scope(t.loop.get_executor());
  scope.spawn(sender(call, data));
  std::string back;
  std::string message;
  for (;;) {
    CallEvent event = *co_await call.next();
    if (auto* d = std::get_if<Data>(&event)) back += to_text(d->bytes);
    if (auto* m = std::get_if<Message>(&event)) message = to_text(m->bytes);
    if (auto* end = std::get_if<End>(&event)) {
      EXPECT_TRUE(end->status.ok());
      break;
    }
  }
  EXPECT_EQ(back, data);
  EXPECT_EQ(message, "done");
  EXPECT_EQ((co_await call.next()).error().reason, "rpc.call_over");
  co_await scope.drain();
  co_await client.stop();
}
TEST_F(RpcTest, StreamsBothWaysAtOnceKeepEveryByte) { run(echo_case(*this)); }

Task<void> error_case(RpcTest& t) {
  Client client(t.loop.get_executor(), t.random, "test", Client::to_path(t.path));
  auto failed = co_await client.unary(to_bytes("fail"), 5s);
  EXPECT_EQ(failed.error().reason, "test.nothing");
  auto vanished = co_await client.unary(to_bytes("vanish"), 5s);
  EXPECT_EQ(vanished.error().reason, "rpc.reset");
  auto late = co_await client.unary(to_bytes("hang"), 20ms);
  EXPECT_EQ(late.error().reason, "rpc.deadline");
  while (t.cancelled_handlers == 0) co_await async::sleep_for(1ms);  // the reset reaches the handler
  co_await client.stop();
}
TEST_F(RpcTest, ErrorsResetsAndDeadlinesComeBack) { run(error_case(*this)); }

Task<void> fd_case(RpcTest& t) {
  Client client(t.loop.get_executor(), t.random, "test", Client::to_path(t.path));
  os::write_file_atomic(t.dir + "/f", "inside", os::Durability::kBuffered).ignore("test");
  for (int i = 0; i < 20; ++i) {
    std::vector<os::Fd> fds;
    fds.push_back(*os::open_file(t.dir + "/f", O_RDONLY));
    auto answer = co_await client.unary(to_bytes("fd"), 5s, std::move(fds));
    EXPECT_TRUE(answer.ok());
    if (answer.ok()) EXPECT_EQ(to_text(*answer), "inside");
  }
  co_await client.stop();
}
TEST_F(RpcTest, DescriptorsTravelWithTheirCall) { run(fd_case(*this)); }

Task<void> backpressure_case(RpcTest& t) {
  Client client(t.loop.get_executor(), t.random, "test", Client::to_path(t.path));
  Call call = *co_await client.start(to_bytes("flood"));
  (co_await call.next()).ignore("one block is enough to know that it runs");
  std::size_t before;
  do {  // until the producer stands still
    before = t.produced;
    co_await async::sleep_for(20ms);
  } while (t.produced != before);
  EXPECT_LE(t.produced, 2 * wire::kWindowBytes);
  call.reset();
  co_await client.stop();
}
TEST_F(RpcTest, AReaderThatStopsStopsTheWriterWithinAWindow) { run(backpressure_case(*this)); }

Task<void> restart_case(RpcTest& t) {
  Client client(t.loop.get_executor(), t.random, "test", Client::to_path(t.path));
  Call call = *co_await client.start(to_bytes("hang"));
  co_await t.server->stop();
  EXPECT_EQ((co_await call.next()).error().reason, "rpc.connection_lost");
  EXPECT_EQ(t.cancelled_handlers, 1);
  t.listen();
  auto failed = co_await client.unary(to_bytes("fail"), 5s);
  EXPECT_EQ(failed.error().reason, "test.nothing");
  co_await client.stop();
}
TEST_F(RpcTest, ARestartedServerFailsOldCallsAndServesNewOnes) { run(restart_case(*this)); }

Task<void> unreachable_case(RpcTest& t) {
  Client client(t.loop.get_executor(), t.random, "nobody", Client::to_path(t.dir + "/none"), 30ms);
  auto answer = co_await client.unary(to_bytes("x"), 5s);
  EXPECT_EQ(answer.error().reason, "rpc.unreachable");
  EXPECT_TRUE(answer.error().retryable());
}
TEST_F(RpcTest, AnAbsentServerIsARetryableError) { run(unreachable_case(*this)); }

}  // namespace
}  // namespace space::rpc
