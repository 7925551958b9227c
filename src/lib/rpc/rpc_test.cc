// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>

#include <sys/socket.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <thread>

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
  std::string gone;
  std::size_t produced = 0;

  void SetUp() override {
    char pattern[] = "/tmp/space-rpc-XXXXXX";
    dir = ::mkdtemp(pattern);
    path = dir + "/s.sock";
    listen();
  }
  void TearDown() override { os::remove_tree(dir).ignore("test clean-up"); }
  void listen() {
    server = std::make_unique<Server>(loop.get_executor(), *os::listen_unix(path),
                                      [this](Call call) { return answer(std::move(call)); });
    server->start();
  }

  Task<void> answer(Call call) {
    std::string what = to_text(call.request());
    if (what == "fail") {
      call.finish(make_error(Code::kNotFound, "test.nothing", "nothing here"));
    } else if (what == "fd") {
      auto fds = call.take_fds(1);
      (co_await call.send_message(
           to_bytes(*os::read_file("/proc/self/fd/" + std::to_string(fds->at(0).get())))))
          .ignore("test");
      call.finish({});
    } else if (what == "vanish") {
      co_return;
    } else if (what == "hang") {
      struct Note {
        int& count;
        ~Note() { ++count; }
      } note{cancelled_handlers};
      (co_await call.next()).ignore("waits for ever");
    } else if (what == "gone") {
      while (!std::holds_alternative<End>(*co_await call.next())) {
      }
      (co_await call.send_message(to_bytes("read"))).ignore("test");
      gone = (co_await call.gone()).reason;
    } else if (what == "flood") {
      std::string block(100'000, 'f');
      while ((co_await call.send_data(1, as_bytes(block))).ok()) produced += block.size();
    } else {  // echo
      for (;;) {
        auto event = co_await call.next();
        if (!event.ok()) co_return;
        if (auto* data = std::get_if<Data>(&*event))
          (co_await call.send_data(data->channel, data->bytes)).ignore("test");
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
    (co_await call.send_data(3, as_bytes(std::string_view(data).substr(at, 70'001))))
        .ignore("checked by the reader");
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
TEST_F(RpcTest, StreamsBothWaysAtOnceKeepEveryByte) {
  run(echo_case(*this));
}

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
TEST_F(RpcTest, ErrorsResetsAndDeadlinesComeBack) {
  run(error_case(*this));
}

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
TEST_F(RpcTest, DescriptorsTravelWithTheirCall) {
  run(fd_case(*this));
}

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
TEST_F(RpcTest, AReaderThatStopsStopsTheWriterWithinAWindow) {
  run(backpressure_case(*this));
}

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
TEST_F(RpcTest, ARestartedServerFailsOldCallsAndServesNewOnes) {
  run(restart_case(*this));
}

Task<void> gone_case(RpcTest& t) {
  Client client(t.loop.get_executor(), t.random, "test", Client::to_path(t.path));
  {
    Call call = *co_await client.start(to_bytes("gone"));
    call.end();
    (co_await call.next()).ignore("the handler has read our End");
  }  // the reset comes after the End
  while (t.gone.empty()) co_await async::sleep_for(1ms);
  EXPECT_EQ(t.gone, "rpc.reset");
  co_await client.stop();
}
TEST_F(RpcTest, AHandlerLearnsThatItsClientLeftAfterTheEnd) {
  run(gone_case(*this));
}

// An answering peer made of a bare mux, which writes to its socket what it likes.
struct RawPeer : wire::MuxHandler {
  os::Fd socket;
  wire::Mux mux{wire::Role::kAcceptor};
  wire::StreamId opened = 0;
  wire::Nonce nonce{};
  void on_attached(const wire::Marker& marker) override { nonce = marker.nonce; }
  void on_open(wire::StreamId stream, ByteView) override { opened = stream; }
  void on_message(wire::StreamId, ByteView) override {}
  void on_data(wire::StreamId, std::uint8_t, ByteView) override {}
  void on_end(wire::StreamId, ByteView) override {}
  void on_reset(wire::StreamId) override {}
  void on_credit(wire::StreamId) override {}

  // Blocking, from a thread of its own: until a call has been opened.
  void accept_call() {
    std::byte buffer[4096];
    ::fcntl(socket.get(), F_SETFL, 0);
    while (opened == 0) {
      ssize_t got = ::read(socket.get(), buffer, sizeof buffer);
      if (got <= 0) return;
      mux.receive(ByteView(buffer, static_cast<std::size_t>(got)), *this).ignore("a test peer");
      write(mux.pending_output());
      mux.consumed(mux.pending_output().size());
    }
  }
  bool write(ByteView bytes) {
    while (!bytes.empty()) {
      ssize_t put = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (put <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    }
    return true;
  }
  // `count` frames in one block.
  Bytes frames(std::size_t count, wire::FrameKind kind, std::size_t size, std::size_t channels) const {
    Bytes block;
    for (std::size_t i = 0; i < count; ++i) {
      std::byte header[wire::kHeaderBytes];
      wire::encode_header(
          {nonce, static_cast<std::uint32_t>(size), opened, kind, static_cast<std::uint8_t>(i % channels)},
          header);
      block.insert(block.end(), header, header + sizeof header);
      block.resize(block.size() + size + wire::kTrailerBytes);
    }
    return block;
  }
};

struct HostilePeerTest : ::testing::Test {
  async::Loop loop;
  os::SystemRandom random;
  RawPeer peer;
  std::unique_ptr<Connection> connection;
  void SetUp() override {
    auto pair = *os::unix_pair();
    peer.socket = std::move(pair.second);
    connection = Connection::ask(loop.get_executor(), std::move(pair.first), random);
  }
  void run(Task<void> task) {
    boost::asio::co_spawn(loop, std::move(task), [](std::exception_ptr e) {
      if (e) std::rethrow_exception(e);
    });
    loop.run();
  }
};

// Frames that cost no window: credits of nothing.
Task<void> flood_case(HostilePeerTest& t) {
  std::thread flood([&t] {
    t.peer.accept_call();
    Bytes block = t.peer.frames(4000, wire::FrameKind::kCredit, 4, 1);
    while (t.peer.write(block)) {
    }
  });
  EXPECT_TRUE((co_await t.connection->wait_attached(10s)).ok());
  Call call = *t.connection->start(to_bytes("x"));
  // The loop still does other things, among them the end of this test.
  for (int i = 0; i < 20; ++i) co_await async::sleep_for(1ms);
  co_await t.connection->stop();
  flood.join();
}
TEST_F(HostilePeerTest, AnEndlessFloodDoesNotKeepTheLoop) {
  run(flood_case(*this));
}

Task<void> tiny_frames_case(HostilePeerTest& t) {
  std::atomic<bool> written = false;
  std::thread writer([&t, &written] {
    t.peer.accept_call();
    t.peer.write(t.peer.frames(60'000, wire::FrameKind::kData, 1, 2));
    written = true;
  });
  EXPECT_TRUE((co_await t.connection->wait_attached(10s)).ok());
  Call call = *t.connection->start(to_bytes("x"));
  while (!written) co_await async::sleep_for(1ms);
  writer.join();
  std::size_t bytes = 0;
  std::size_t events = 0;
  while (bytes < 60'000) {
    auto event = co_await call.next();
    EXPECT_TRUE(event.ok());
    if (!event.ok()) break;
    bytes += std::get<Data>(*event).bytes.size();
    ++events;
  }
  EXPECT_LT(events, 20'000U);
  EXPECT_TRUE(t.connection->alive());
  co_await t.connection->stop();
}
TEST_F(HostilePeerTest, TinyFramesOfTwoChannelsAreJoined) {
  run(tiny_frames_case(*this));
}

Task<void> many_channels_case(HostilePeerTest& t) {
  std::thread writer([&t] {
    t.peer.accept_call();
    t.peer.write(t.peer.frames(60'000, wire::FrameKind::kData, 1, 256));
  });
  EXPECT_TRUE((co_await t.connection->wait_attached(10s)).ok());
  Call call = *t.connection->start(to_bytes("x"));
  co_await t.connection->closed();
  EXPECT_EQ(t.connection->why().reason, "rpc.too_many_events");
  co_await t.connection->stop();
  writer.join();
}
TEST_F(HostilePeerTest, FramesThatOnlyFillTheQueueEndTheConnection) {
  run(many_channels_case(*this));
}

Task<void> unexpected_fds_case(HostilePeerTest& t) {
  std::thread writer([&t] {
    t.peer.accept_call();
    auto pair = *os::unix_pair();
    os::send_with_fds(t.peer.socket.get(), as_bytes("x"), {pair.first.get()}).ignore("a test peer");
  });
  EXPECT_TRUE((co_await t.connection->wait_attached(10s)).ok());
  Call call = *t.connection->start(to_bytes("x"));
  co_await t.connection->closed();
  EXPECT_EQ(t.connection->why().reason, "rpc.too_many_descriptors");
  co_await t.connection->stop();
  writer.join();
}
TEST_F(HostilePeerTest, DescriptorsTowardTheAskingEndAreRefused) {
  run(unexpected_fds_case(*this));
}

Task<void> unreachable_case(RpcTest& t) {
  Client client(t.loop.get_executor(), t.random, "nobody", Client::to_path(t.dir + "/none"), 30ms);
  auto answer = co_await client.unary(to_bytes("x"), 5s);
  EXPECT_EQ(answer.error().reason, "rpc.unreachable");
  EXPECT_TRUE(answer.error().retryable());
}
TEST_F(RpcTest, AnAbsentServerIsARetryableError) {
  run(unreachable_case(*this));
}

}  // namespace
}  // namespace space::rpc
