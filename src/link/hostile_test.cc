// SPDX-License-Identifier: Apache-2.0
// A running Link against daemons that break the protocol, and the isolation of one sandbox from another.
#include <atomic>
#include <thread>

#include "link/link_fixture.h"

namespace space::link {
namespace {

struct HostileTest : LinkTest {};

// The far end of a channel by hand: a multiplexer that answers the marker, and whatever bytes the test likes.
class RawDaemon : public wire::MuxHandler {
 public:
  explicit RawDaemon(os::Fd socket) : socket_(std::move(socket)) {}
  // Until the echo is sent and a call has been opened (or only the echo, with `calls` 0).
  Task<void> accept(std::size_t calls) {
    while (!mux_.attached() || opened.size() < calls) {
      std::byte buffer[64 * 1024];
      ssize_t got = ::recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (got == 0) co_return;
      if (got < 0) {
        co_await async::sleep_for(1ms);
        continue;
      }
      mux_.receive(ByteView(buffer, static_cast<std::size_t>(got)), *this).ignore("link is honest");
      write(mux_.pending_output());
      mux_.consumed(mux_.pending_output().size());
    }
  }
  // From the loop.
  Task<void> send(Bytes bytes) {
    for (ByteView rest = bytes; !rest.empty();) {
      ssize_t put = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (put < 0 && errno != EAGAIN) co_return;
      if (put < 0) co_await async::sleep_for(1ms);
      if (put > 0) rest = rest.subspan(static_cast<std::size_t>(put));
    }
  }
  // Blocking: small things, or from a thread of its own.
  bool write(ByteView bytes) {
    ::fcntl(socket_.get(), F_SETFL, 0);
    while (!bytes.empty()) {
      ssize_t put = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (put <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    }
    return true;
  }
  Bytes frame(wire::FrameKind kind, wire::StreamId stream, ByteView payload, std::uint32_t length) const {
    Bytes bytes(wire::kHeaderBytes);
    wire::encode_header({marker.nonce, length, stream, kind, 1}, bytes.data());
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    bytes.push_back(std::byte{0});
    return bytes;
  }
  Bytes frame(wire::FrameKind kind, wire::StreamId stream, std::string_view payload) const {
    return frame(kind, stream, as_bytes(payload), static_cast<std::uint32_t>(payload.size()));
  }
  void close() { socket_.reset(); }

  wire::Marker marker;
  std::vector<wire::StreamId> opened;

  void on_attached(const wire::Marker& fresh) override { marker = fresh; }
  void on_open(wire::StreamId stream, ByteView) override { opened.push_back(stream); }
  void on_message(wire::StreamId, ByteView) override {}
  void on_data(wire::StreamId, std::uint8_t, ByteView) override {}
  void on_end(wire::StreamId, ByteView) override {}
  void on_reset(wire::StreamId) override {}
  void on_credit(wire::StreamId) override {}

 private:
  os::Fd socket_;
  wire::Mux mux_{wire::Role::kAcceptor};
};

Task<std::unique_ptr<rpc::Call>> watch(HostileTest& t) {
  auto call = std::make_unique<rpc::Call>(
      std::move(*co_await t.node->start(wire::pack_body<linkapi::RequestT>(linkapi::WatchT{}))));
  co_return call;
}
Task<linkapi::EventT> next_event(rpc::Call& watch) {
  auto event = co_await watch.next();
  EXPECT_TRUE(event.ok());
  if (!event.ok()) co_return linkapi::EventT();
  co_return *wire::unpack_body<linkapi::ReplyT, linkapi::EventT>(std::get<rpc::Message>(*event).bytes);
}

// What an Exec that misbehaves does to its call, to the calls beside it, and that a new attachment mends it.
Task<void> violation(HostileTest& t, std::string program) {
  auto& m = t.machine('a');
  auto& other = t.machine('b');
  EXPECT_TRUE((co_await t.attach(m)).ok());
  EXPECT_TRUE((co_await t.attach(other)).ok());
  auto events = co_await watch(t);
  rpc::Call beside = co_await t.start_call(m, guest_request(exec_of("hang")));
  (co_await beside.next()).ignore("Started");
  rpc::Call elsewhere = co_await t.start_call(other, guest_request(exec_of("cat", true)));
  (co_await elsewhere.next()).ignore("Started");

  EXPECT_EQ((co_await t.ask(m, guest_request(exec_of(program)))).reason(), "link.protocol_error");
  EXPECT_EQ((co_await collect(beside)).reason(), "link.protocol_error");
  auto event = co_await next_event(*events);
  EXPECT_EQ(event.kind, linkapi::EventKind::ProtocolError);
  EXPECT_EQ(event.sandbox, m.id);
  EXPECT_EQ((co_await t.ask(m, guest_request(exec_of("true")))).reason(), "link.protocol_error");

  // The other sandbox noticed nothing.
  elsewhere.end();
  EXPECT_EQ((co_await collect(elsewhere)).reason(), "ok");

  auto& again = t.machine('a');
  EXPECT_TRUE((co_await t.attach(again, 2)).ok());
  EXPECT_EQ((co_await t.ask(again, guest_request(exec_of("true")))).reason(), "ok");
}
TEST_F(HostileTest, GarbageMessages) {
  run(violation(*this, "garbage"));
}
TEST_F(HostileTest, WrongKinds) {
  run(violation(*this, "wrong-kind"));
}
TEST_F(HostileTest, SuccessWithoutExit) {
  run(violation(*this, "no-exit"));
}
TEST_F(HostileTest, RepeatedAnswers) {
  run(violation(*this, "two-starts"));
}
TEST_F(HostileTest, UnknownChannels) {
  run(violation(*this, "channel-9"));
}

// Bytes on the wire: `make` gives what the daemon writes once it has a call.
Task<void> raw(HostileTest& t, std::function<Bytes(RawDaemon&)> make, std::string reason) {
  auto& m = t.machine('a', false);
  RawDaemon daemon(std::move(m.channel));
  EXPECT_TRUE((co_await t.attach(m)).ok());
  rpc::Call call = co_await t.start_call(m, guest_request(exec_of("true")));
  co_await daemon.accept(1);
  co_await daemon.send(make(daemon));
  daemon.close();
  EXPECT_EQ((co_await collect(call)).reason(), reason);
}
TEST_F(HostileTest, BytesThatAreNoFrame) {
  run(raw(*this, [](RawDaemon&) { return to_bytes(std::string(1000, 'g')); }, "link.protocol_error"));
}
TEST_F(HostileTest, AHugeFrame) {
  run(raw(
      *this,
      [](RawDaemon& d) {
        return d.frame(wire::FrameKind::kMessage, d.opened[0], as_bytes("x"), 0xffffffffU);
      },
      "link.protocol_error"));
}
TEST_F(HostileTest, ACutFrame) {
  run(raw(
      *this,
      [](RawDaemon& d) {
        Bytes frame = d.frame(wire::FrameKind::kMessage, d.opened[0], "some message");
        frame.resize(frame.size() - 5);
        return frame;
      },
      "link.sandbox_gone"));
}
TEST_F(HostileTest, AFrameOfAnotherNonce) {
  run(raw(
      *this,
      [](RawDaemon& d) {
        d.marker.nonce[3] ^= std::byte{1};
        return d.frame(wire::FrameKind::kMessage, d.opened[0], "x");
      },
      "link.protocol_error"));
}
TEST_F(HostileTest, ACallFromTheGuest) {
  run(raw(
      *this, [](RawDaemon& d) { return d.frame(wire::FrameKind::kOpen, 77, "let me in"); },
      "link.protocol_error"));
}
TEST_F(HostileTest, AStreamThatNeverWas) {
  run(raw(
      *this, [](RawDaemon& d) { return d.frame(wire::FrameKind::kData, 500, "x"); }, "link.protocol_error"));
}
TEST_F(HostileTest, MoreThanTheWindow) {
  run(raw(
      *this,
      [](RawDaemon& d) {
        Bytes all;
        for (int i = 0; i < 300; ++i) {
          Bytes one = d.frame(wire::FrameKind::kData, d.opened[0], std::string(4096, 'w'));
          all.insert(all.end(), one.begin(), one.end());
        }
        return all;
      },
      "link.protocol_error"));
}
TEST_F(HostileTest, AnEndWithoutStatus) {
  run(raw(
      *this, [](RawDaemon& d) { return d.frame(wire::FrameKind::kEnd, d.opened[0], ""); },
      "link.protocol_error"));
}

Task<void> noise_before_echo(HostileTest& t) {
  auto& m = t.machine('a', false);
  EXPECT_TRUE((co_await t.attach(m)).ok());
  // What an earlier attachment left behind: a cut frame, half an echo.
  std::string noise(10'000, 'n');
  noise +=
      std::string(reinterpret_cast<const char*>(wire::kEchoMagic.data()), 16) + noise;  // SAFETY: bytes alias
  EXPECT_TRUE(os::write_all(m.channel.get(), as_bytes(noise)).ok());
  m.start_daemon();
  EXPECT_EQ((co_await t.ask(m, guest_request(exec_of("true")))).reason(), "ok");
}
TEST_F(HostileTest, WhatCameBeforeTheEchoIsDiscarded) {
  run(noise_before_echo(*this));
}

Task<void> endless_noise(HostileTest& t) {
  auto& m = t.machine('a', false);
  EXPECT_TRUE((co_await t.attach(m)).ok());
  std::thread writer([&m] {
    ::fcntl(m.channel.get(), F_SETFL, 0);
    std::string block(1 << 20, 'n');
    while (::send(m.channel.get(), block.data(), block.size(), MSG_NOSIGNAL) > 0) {
    }
  });
  EXPECT_EQ((co_await t.ask(m, guest_request(exec_of("true")), 20'000)).reason(), "link.protocol_error");
  writer.join();
}
TEST_F(HostileTest, EndlessNoiseInsteadOfAnEchoEndsTheAttachment) {
  run(endless_noise(*this));
}

// Frames that cost no window, as fast as a thread can write them.
Task<void> flood(HostileTest& t) {
  auto& m = t.machine('a', false);
  auto& other = t.machine('b');
  RawDaemon daemon(std::move(m.channel));
  EXPECT_TRUE((co_await t.attach(m)).ok());
  EXPECT_TRUE((co_await t.attach(other)).ok());
  rpc::Call call = co_await t.start_call(m, guest_request(exec_of("true")));
  co_await daemon.accept(1);
  Bytes block;
  for (int i = 0; i < 4000; ++i) {
    Bytes one = daemon.frame(wire::FrameKind::kCredit, daemon.opened[0], std::string_view("\0\0\0\0", 4));
    block.insert(block.end(), one.begin(), one.end());
  }
  std::atomic<std::uint64_t> written = 0;
  std::thread writer([&] {
    while (daemon.write(block)) written += block.size();
  });
  co_await until([&] { return written > 4 * block.size(); });
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ((co_await t.ask(other, guest_request(exec_of("true")))).reason(), "ok");
  co_await t.link->stop();
  writer.join();
}
TEST_F(HostileTest, AFloodOfOneSandboxDoesNotStarveAnother) {
  run(flood(*this));
}

Task<void> unread_requests(HostileTest& t) {
  auto& m = t.machine('a', false);
  RawDaemon daemon(std::move(m.channel));
  EXPECT_TRUE((co_await t.attach(m)).ok());
  async::TaskScope scope(t.loop.get_executor());
  co_await daemon.accept(0);  // the echo, and then it reads no more
  auto exec = [] {
    auto large = exec_of("true");
    large.argv.push_back(std::string(50'000, 'a'));
    return guest_request(std::move(large));
  };
  // Each leaves its request in front of a daemon that doesn't read.
  for (int i = 0; i < 40; ++i) EXPECT_EQ((co_await t.ask(m, exec(), 1)).reason(), "link.guest_not_answering");
  // So much waits now that a further call fails at once, whatever its deadline.
  EXPECT_EQ((co_await t.ask(m, exec(), 3'600'000)).reason(), "link.guest_not_answering");
}
TEST_F(HostileTest, ADaemonThatDoesNotReadDoesNotMakeRequestsPileUp) {
  run(unread_requests(*this));
}

Task<void> descriptors(HostileTest& t) {
  auto& m = t.machine('a', false);
  EXPECT_TRUE((co_await t.attach(m)).ok());
  auto pair = *os::unix_pair();
  EXPECT_TRUE(os::send_with_fds(m.channel.get(), as_bytes("x"), {pair.first.get()}).ok());
  EXPECT_EQ((co_await t.ask(m, guest_request(exec_of("true")))).reason(), "link.protocol_error");
}
TEST_F(HostileTest, DescriptorsFromAVmmAreRefused) {
  run(descriptors(*this));
}

Task<void> generations(HostileTest& t) {
  auto& first = t.machine('a');
  EXPECT_TRUE((co_await t.attach(first, 4)).ok());
  rpc::Call call = co_await t.start_call(first, guest_request(exec_of("hang")));
  (co_await call.next()).ignore("Started");
  auto& second = t.machine('a', false);
  RawDaemon daemon(std::move(second.channel));
  EXPECT_TRUE((co_await t.attach(second, 5)).ok());
  EXPECT_EQ((co_await collect(call)).reason(), "link.sandbox_gone");
  co_await daemon.accept(0);
  EXPECT_EQ(daemon.marker.generation, 5U);
  auto& stale = t.machine('a');
  auto refused = co_await t.attach(stale, 4);
  EXPECT_FALSE(refused.ok());
  if (!refused.ok()) EXPECT_EQ(refused.error().reason, "link.stale_generation");
}
TEST_F(HostileTest, ANewGenerationReplacesAnOlderOneOnly) {
  run(generations(*this));
}

}  // namespace
}  // namespace space::link
