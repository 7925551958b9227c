// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/mux.h"

#include <gtest/gtest.h>

#include <random>

#include "lib/wire/message.h"

namespace space::wire {
namespace {

struct Recorder : MuxHandler {
  std::string log;
  std::string data;
  StreamId last = 0;
  void on_attached(const Marker& m) override { log += "A" + std::to_string(m.generation) + " "; }
  void on_open(StreamId s, ByteView r) override {
    last = s;
    log += "O" + std::to_string(s) + ":" + to_text(r) + " ";
  }
  void on_message(StreamId s, ByteView m) override {
    log += "M" + std::to_string(s) + ":" + to_text(m) + " ";
  }
  void on_data(StreamId, std::uint8_t, ByteView d) override { data += to_text(d); }
  void on_end(StreamId s, ByteView p) override { log += "E" + std::to_string(s) + ":" + to_text(p) + " "; }
  void on_reset(StreamId s) override { log += "R" + std::to_string(s) + " "; }
  void on_credit(StreamId) override {}
};

Nonce nonce(unsigned char fill) {
  Nonce n;
  n.fill(std::byte{fill});
  return n;
}

struct Pair : ::testing::Test {
  Mux host{Role::kInitiator};
  Mux guest{Role::kAcceptor};
  Recorder at_host, at_guest;

  // Moves bytes both ways, in pieces of `piece`, until both are quiet.
  void pump(std::size_t piece = 1 << 20) {
    while (!host.pending_output().empty() || !guest.pending_output().empty()) {
      move(host, guest, at_guest, piece);
      move(guest, host, at_host, piece);
    }
  }
  static void move(Mux& from, Mux& to, Recorder& handler, std::size_t piece) {
    Bytes out = to_bytes(from.pending_output().first(std::min(piece, from.pending_output().size())));
    from.consumed(out.size());
    auto result = to.receive(out, handler);
    EXPECT_TRUE(result.ok()) << result.error().describe();
  }
  void attach(unsigned char fill = 1, std::uint64_t generation = 1) {
    host.attach(nonce(fill), generation);
    pump();
  }
};

TEST_F(Pair, CarriesACallBothWays) {
  attach();
  StreamId s = *host.open(as_bytes("run"));
  host.send_data(s, 0, as_bytes("in"));
  host.end(s);
  pump();
  ASSERT_TRUE(guest.send_message(s, as_bytes("started")).ok());
  guest.send_data(s, 1, as_bytes("out"));
  guest.end(s, as_bytes("ok"));
  pump();
  EXPECT_EQ(at_guest.log, "A1 O1:run E1: ");
  EXPECT_EQ(at_guest.data, "in");
  EXPECT_EQ(at_host.log, "A1 M1:started E1:ok ");
  EXPECT_EQ(at_host.data, "out");
  EXPECT_EQ(host.stream_count(), 0U);
  EXPECT_EQ(guest.stream_count(), 0U);
}

TEST_F(Pair, EveryCutOfTheByteStreamGivesTheSameEvents) {
  for (std::size_t piece : {1, 2, 3, 7, 31, 32, 33, 47, 48, 49}) {
    host.attach(nonce(9), 4);
    at_guest = {};
    pump(piece);
    StreamId s = *host.open(as_bytes("q"));
    host.send_data(s, 0, as_bytes("hello"));
    pump(piece);
    EXPECT_EQ(at_guest.log, "A4 O1:q ") << piece;
    EXPECT_EQ(at_guest.data, "hello") << piece;
  }
}

TEST_F(Pair, ReattachmentInTheMiddleOfAFrameDropsOldStreamsAndDeliversNothingHalf) {
  attach(1, 1);
  StreamId s = *host.open(as_bytes("upload"));
  pump();
  host.send_data(s, 0, as_bytes(std::string(1000, 'x')));
  for (std::size_t cut = 1; cut < 1033; cut += 13) {
    at_guest = {};
    ASSERT_TRUE(guest.receive(host.pending_output().first(cut), at_guest).ok());
    Mux restarted(Role::kInitiator);
    restarted.attach(nonce(7), 2);
    ASSERT_TRUE(guest.receive(restarted.pending_output(), at_guest).ok());
    EXPECT_EQ(at_guest.log, "A2 ") << cut;
    EXPECT_EQ(at_guest.data, "") << cut;
    EXPECT_EQ(guest.stream_count(), 0U);
    // And back to the first attachment for the next cut.
    host.attach(nonce(1), 1);
    pump();
    s = *host.open(as_bytes("upload"));
    pump();
    host.send_data(s, 0, as_bytes(std::string(1000, 'x')));
  }
}

TEST_F(Pair, AMarkerCutAnywhereIsReplacedByTheNext) {
  for (std::size_t cut = 1; cut < kMarkerBytes; ++cut) {
    host.attach(nonce(3), 5);
    at_guest = {};
    guest.receive(host.pending_output().first(cut), at_guest).ignore("cut on purpose");
    host.attach(nonce(4), 6);
    pump();
    EXPECT_EQ(at_guest.log, "A6 ") << cut;
  }
}

TEST_F(Pair, UserDataThatContainsTheMarkerIsOnlyData) {
  attach();
  StreamId s = *host.open(as_bytes("w"));
  std::byte marker[kMarkerBytes];
  encode_marker(kMarkerMagic, Marker{nonce(66), 99, kProtocolVersion}, marker);
  std::string evil;
  for (int i = 0; i < 50; ++i) {
    evil += std::string(static_cast<std::size_t>(i), 'a') + to_text(marker) +
            to_text(ByteView(marker).first(static_cast<std::size_t>(i % 17)));
  }
  for (std::size_t sent = 0; sent < evil.size();) {
    sent += host.send_data(s, 0, as_bytes(evil).subspan(sent));
    pump(5);
  }
  EXPECT_EQ(at_guest.data, evil);
  EXPECT_EQ(at_guest.log, "A1 O1:w ");
  EXPECT_EQ(host.open(ByteView(marker)).error().reason, "wire.forbidden_bytes");
}

TEST_F(Pair, WindowBoundsWhatIsSentAndCreditReopensIt) {
  attach();
  StreamId s = *host.open(as_bytes("r"));
  pump();
  std::string much(kWindowBytes + 1000, 'z');
  EXPECT_EQ(guest.send_data(s, 1, as_bytes(much)), kWindowBytes);
  EXPECT_EQ(guest.send_data(s, 1, as_bytes(much)), 0U);
  pump();
  EXPECT_EQ(guest.writable(s), 0U);
  host.grant(s, kWindowBytes);
  pump();
  EXPECT_EQ(guest.writable(s), kWindowBytes);
}

TEST_F(Pair, HostSkipsWhateverStoodInTheChannelBeforeTheEcho) {
  host.attach(nonce(8), 3);
  std::mt19937 random(42);
  Bytes garbage(100'000);
  for (auto& b : garbage) b = static_cast<std::byte>(random());
  ASSERT_TRUE(host.receive(garbage, at_host).ok());
  Recorder other;
  Mux stale(Role::kAcceptor);
  Mux old(Role::kInitiator);
  old.attach(nonce(2), 2);
  ASSERT_TRUE(stale.receive(old.pending_output(), other).ok());
  ASSERT_TRUE(host.receive(stale.pending_output(), at_host).ok());  // echo of another attachment
  EXPECT_FALSE(host.attached());
  pump();
  EXPECT_TRUE(host.attached());
}

TEST_F(Pair, HostGivesUpOnEndlessGarbage) {
  Mux small(Role::kInitiator, {.max_streams = 4, .max_discard_bytes = 1000});
  small.attach(nonce(8), 3);
  Result<void> result;
  for (int i = 0; i < 3 && result.ok(); ++i) result = small.receive(Bytes(600), at_host);
  EXPECT_EQ(result.error().reason, "wire.no_echo");
}

struct Hostile : Pair {
  StreamId s = 0;
  void SetUp() override {
    attach();
    s = *host.open(as_bytes("x"));
    pump();
  }
  Bytes frame(FrameHeader h, std::string_view payload, std::byte trailer = std::byte{0}) {
    Bytes out(kHeaderBytes);
    h.length = static_cast<std::uint32_t>(payload.size());
    encode_header(h, out.data());
    Bytes p = to_bytes(payload);
    out.insert(out.end(), p.begin(), p.end());
    out.push_back(trailer);
    return out;
  }
  void refuse(const Bytes& bytes) {
    auto result = host.receive(bytes, at_host);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().reason, "wire.protocol");
    EXPECT_FALSE(host.attached());
    EXPECT_EQ(host.stream_count(), 0U);
  }
};

TEST_F(Hostile, FrameOfAnotherAttachmentIsRefused) {
  refuse(frame({nonce(2), 0, s, FrameKind::kData, 1}, "late"));
}
TEST_F(Hostile, GuestMayNotOpenCalls) {
  refuse(frame({nonce(1), 0, 7, FrameKind::kOpen, 0}, "hi"));
}
TEST_F(Hostile, UnknownStreamIsRefused) {
  refuse(frame({nonce(1), 0, 1000, FrameKind::kData, 1}, "x"));
}
TEST_F(Hostile, StreamZeroIsRefused) {
  refuse(frame({nonce(1), 0, 0, FrameKind::kData, 1}, "x"));
}
TEST_F(Hostile, EmptyDataIsRefused) {
  refuse(frame({nonce(1), 0, s, FrameKind::kData, 1}, ""));
}
TEST_F(Hostile, BadTrailerIsRefused) {
  refuse(frame({nonce(1), 0, s, FrameKind::kData, 1}, "x", std::byte{1}));
}
TEST_F(Hostile, BadCreditIsRefused) {
  refuse(frame({nonce(1), 0, s, FrameKind::kCredit, 0}, "xyz"));
}
TEST_F(Hostile, CreditBeyondTheWindowIsRefused) {
  refuse(frame({nonce(1), 0, s, FrameKind::kCredit, 0}, std::string("\x01\0\0\0", 4)));
}
TEST_F(Hostile, HugeLengthIsRefusedBeforeAnythingIsBuffered) {
  Bytes header(kHeaderBytes);
  encode_header({nonce(1), 0xffffffff, s, FrameKind::kData, 1}, header.data());
  refuse(header);
}
TEST_F(Hostile, OverrunOfTheWindowIsRefused) {
  std::string chunk(60'000, 'x');
  Result<void> result;
  for (int i = 0; i < 5 && result.ok(); ++i)
    result = host.receive(frame({nonce(1), 0, s, FrameKind::kData, 1}, chunk), at_host);
  EXPECT_EQ(result.error().reason, "wire.protocol");
}
TEST_F(Hostile, DataAfterEndOfTheStreamIsIgnoredAsACrossing) {
  ASSERT_TRUE(host.receive(frame({nonce(1), 0, s, FrameKind::kEnd, 0}, "done"), at_host).ok());
  ASSERT_TRUE(host.receive(frame({nonce(1), 0, s, FrameKind::kData, 1}, "more"), at_host).ok());
  EXPECT_EQ(at_host.data, "");
}
TEST_F(Hostile, RandomBytesNeverCrashAndNeverDeliver) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Bytes junk(random() % 300 + 33);
    for (auto& b : junk) b = static_cast<std::byte>(random());
    host.receive(junk, at_host).ignore("anything may come back");
    attach();
  }
  EXPECT_EQ(at_host.data, "");
}

TEST(MessageTest, StatusRoundTrips) {
  Error error = field_error("memory_bytes", "node.no_memory", "too much");
  EXPECT_EQ(unpack_status(pack_status(error)).error(), error);
  EXPECT_TRUE(unpack_status(pack_status({})).ok());
  EXPECT_EQ(unpack_status({}).error().reason, "wire.no_status");
  EXPECT_EQ(unpack_status(as_bytes("garbage garbage")).error().reason, "wire.malformed_message");
}

}  // namespace
}  // namespace space::wire
