// SPDX-License-Identifier: Apache-2.0
#pragma once
// Mux: many flow-controlled calls over one byte stream, as a state machine without I/O.
//
// The owner moves bytes: what it reads goes into receive(), what pending_output() shows is written and then
// reported with consumed(). Events come out through MuxHandler, during receive() only.
//
// Roles. The initiator attaches (attach() sends the resync marker), opens streams and cancels them. The
// acceptor answers. At every attachment all older streams are gone on both sides: the acceptor learns of it
// by on_attached(), and the initiator starts with none.
//
// Flow control. Each direction of a stream has a window of kWindowBytes. MESSAGE and DATA use it up (a
// message costs its size plus kMessageCost); the receiver gives it back with grant() once it has consumed an
// event. Nobody can make the peer buffer more than window × streams.
//
// Failure. receive() returns an error when the peer broke the protocol; the mux is then dead until the next
// attach() (initiator) or until a marker arrives (acceptor, which never fails for good).
//
// Resource type; single-threaded; compiled for the guest too (no exceptions).

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/base/result.h"
#include "lib/wire/frame.h"

namespace space::wire {

enum class Role : std::uint8_t { kInitiator, kAcceptor };

using StreamId = std::uint32_t;

inline constexpr std::size_t kWindowBytes = 256u << 10;
inline constexpr std::size_t kMessageCost = 64;
// Largest FlatBuffer message or request.
inline constexpr std::size_t kMaxMessageBytes = kMaxPayloadBytes;
// DATA frames are cut at this size, so that calls share the channel fairly.
inline constexpr std::size_t kMaxDataBytes = 32u << 10;

struct MuxLimits {
  std::size_t max_streams = 256;
  // An initiator that waits for the echo discards at most this much before it gives up (a frame that was cut,
  // and what the guest had queued).
  std::size_t max_discard_bytes = 64u << 20;
};

class MuxHandler {
 public:
  virtual ~MuxHandler() = default;
  // Acceptor: a marker arrived, every older stream is gone. Initiator: the echo arrived, open() may be used.
  virtual void on_attached(const Marker& marker) = 0;
  virtual void on_open(StreamId stream, ByteView request) = 0;  // acceptor only
  virtual void on_message(StreamId stream, ByteView message) = 0;
  virtual void on_data(StreamId stream, std::uint8_t channel, ByteView data) = 0;
  virtual void on_end(StreamId stream, ByteView status) = 0;
  virtual void on_reset(StreamId stream) = 0;
  virtual void on_credit(StreamId stream) = 0;  // writable() has grown
};

class Mux {
 public:
  Mux(Role role, MuxLimits limits = {});
  Mux(const Mux&) = delete;
  Mux& operator=(const Mux&) = delete;

  // Initiator: forgets everything and queues the marker. Precondition: `nonce` is fresh and random.
  void attach(const Nonce& nonce, std::uint64_t generation);
  [[nodiscard]] bool attached() const { return state_ == State::kAttached; }

  // Errors: wire.protocol (with the offset in the stream), wire.no_echo, wire.version.
  Result<void> receive(ByteView bytes, MuxHandler& handler);

  // Initiator. Errors: wire.not_attached, wire.too_many_streams, wire.message_too_large,
  // wire.forbidden_bytes.
  Result<StreamId> open(ByteView request);

  // Bytes of window left for sending on `stream`; 0 when it is gone or ended.
  [[nodiscard]] std::size_t writable(StreamId stream) const;
  // May a message of `size` bytes be sent now?
  [[nodiscard]] bool can_send_message(StreamId stream, std::size_t size) const;
  // Preconditions: can_send_message(). Errors: wire.message_too_large, wire.forbidden_bytes, wire.no_credit.
  Result<void> send_message(StreamId stream, ByteView message);
  // Sends a prefix of `data` as far as the window allows and returns its length.
  std::size_t send_data(StreamId stream, std::uint8_t channel, ByteView data);
  // No more from this side. The acceptor's END closes the stream.
  void end(StreamId stream, ByteView status = {});
  void reset(StreamId stream);
  // The owner consumed `bytes` of received DATA, or one received message of that size (`message` true adds
  // its cost).
  void grant(StreamId stream, std::size_t bytes);
  void grant_message(StreamId stream, std::size_t size) { grant(stream, size + kMessageCost); }

  [[nodiscard]] ByteView pending_output() const { return ByteView(out_).subspan(out_begin_); }
  void consumed(std::size_t bytes);
  [[nodiscard]] std::size_t stream_count() const { return streams_.size(); }

 private:
  enum class State : std::uint8_t { kIdle, kAwaitingEcho, kAttached, kFailed };
  struct Stream {
    std::size_t send_window = kWindowBytes;
    std::size_t receive_window = kWindowBytes;
    std::size_t ungranted = 0;  // consumed by the owner, not yet told to the peer
    bool ended_here = false;
    bool ended_there = false;
  };

  Error fail(const char* what);
  // Feeds bytes that belong to no marker.
  Result<void> feed(ByteView bytes, MuxHandler& handler);
  Result<void> on_frame(const FrameHeader& header, ByteView payload, MuxHandler& handler);
  Result<void> await_echo(ByteView& bytes, MuxHandler& handler);
  Result<void> scan_marker(ByteView bytes, MuxHandler& handler);
  void emit(FrameKind kind, StreamId stream, std::uint8_t channel, ByteView payload);
  void emit_raw(const std::byte* at, std::size_t size);
  Stream* find(StreamId stream);
  void forget_if_done(StreamId stream, const Stream& state);

  Role role_;
  MuxLimits limits_;
  State state_ = State::kIdle;
  Marker marker_;
  StreamId next_stream_ = 1;
  StreamId highest_seen_ = 0;
  std::unordered_map<StreamId, Stream> streams_;

  // Marker search: bytes matched so far of the magic, then of the body.
  std::size_t matched_ = 0;
  Bytes body_;
  std::size_t discarded_ = 0;
  std::uint64_t offset_ = 0;

  Bytes partial_;  // an incomplete frame
  Bytes out_;
  std::size_t out_begin_ = 0;
};

}  // namespace space::wire
