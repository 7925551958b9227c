// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/mux.h"

#include <algorithm>
#include <cstring>

namespace space::wire {
namespace {

std::size_t frame_bytes(const FrameHeader& header) {
  return kHeaderBytes + header.length + kTrailerBytes;
}

}  // namespace

Mux::Mux(Role role, MuxLimits limits) : role_(role), limits_(limits) {}

void Mux::attach(const Nonce& nonce, std::uint64_t generation) {
  streams_.clear();
  partial_.clear();
  out_.clear();
  out_begin_ = 0;
  matched_ = 0;
  body_.clear();
  discarded_ = 0;
  next_stream_ = 1;
  marker_ = Marker{nonce, generation, kProtocolVersion};
  state_ = State::kAwaitingEcho;
  std::byte marker[kMarkerBytes];
  encode_marker(kMarkerMagic, marker_, marker);
  emit_raw(marker, sizeof marker);
}

Error Mux::fail(const char* what) {
  streams_.clear();
  partial_.clear();
  if (role_ == Role::kInitiator) state_ = State::kFailed;
  if (role_ == Role::kAcceptor) state_ = State::kIdle;
  return make_error(Code::kDataLoss, "wire.protocol",
                    std::string(what) + " near byte " + std::to_string(offset_));
}

Result<void> Mux::receive(ByteView bytes, MuxHandler& handler) {
  if (role_ == Role::kAcceptor) return scan_marker(bytes, handler);
  if (state_ == State::kAwaitingEcho) SPACE_CHECK_OK(await_echo(bytes, handler));
  if (state_ != State::kAttached) {
    return bytes.empty() ? Result<void>()
                         : Result<void>(make_error(Code::kFailedPrecondition, "wire.not_attached",
                                                   "bytes before attachment"));
  }
  return feed(bytes, handler);
}

// Initiator: discards bytes until the echo with our nonce, and leaves `bytes` at what follows it.
Result<void> Mux::await_echo(ByteView& bytes, MuxHandler& handler) {
  partial_.insert(partial_.end(), bytes.begin(), bytes.end());
  bytes = {};
  std::byte wanted[kMarkerBytes];
  encode_marker(kEchoMagic, marker_, wanted);
  const void* hit = memmem(partial_.data(), partial_.size(), wanted, 32);  // magic and nonce
  if (hit == nullptr) {
    std::size_t keep = std::min(partial_.size(), std::size_t{31});
    discarded_ += partial_.size() - keep;
    partial_.erase(partial_.begin(), partial_.end() - static_cast<std::ptrdiff_t>(keep));
    if (discarded_ > limits_.max_discard_bytes) {
      fail("no echo");
      return make_error(Code::kUnavailable, "wire.no_echo",
                        "the peer sent data but never the echo of this attachment");
    }
    return {};
  }
  auto at = static_cast<std::size_t>(static_cast<const std::byte*>(hit) - partial_.data());
  if (partial_.size() - at < kMarkerBytes) return {};
  Marker echo;
  if (!decode_marker_body(partial_.data() + at + 16, echo)) return fail("damaged echo");
  if (echo.version != kProtocolVersion) {
    fail("version");
    return make_error(Code::kFailedPrecondition, "wire.version",
                      "the peer speaks protocol " + std::to_string(echo.version) + ", this side " +
                          std::to_string(kProtocolVersion));
  }
  Bytes rest(partial_.begin() + static_cast<std::ptrdiff_t>(at + kMarkerBytes), partial_.end());
  partial_.clear();
  state_ = State::kAttached;
  handler.on_attached(echo);
  return feed(rest, handler);
}

// Acceptor: separates markers, which may come anywhere, from frames.
Result<void> Mux::scan_marker(ByteView bytes, MuxHandler& handler) {
  Result<void> outcome;
  std::size_t clean = 0;  // start of the run that certainly belongs to frames
  auto flush = [&](std::size_t end) {
    if (end > clean && state_ == State::kAttached) {
      if (auto fed = feed(bytes.subspan(clean, end - clean), handler); !fed.ok()) outcome = std::move(fed);
    }
    clean = end;
  };
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto byte = static_cast<unsigned char>(bytes[i]);
    if (matched_ == 0) {
      const void* hit = std::memchr(bytes.data() + i, kMarkerMagic[0], bytes.size() - i);
      if (hit == nullptr) break;
      i = static_cast<std::size_t>(static_cast<const std::byte*>(hit) - bytes.data());
      flush(i);
      matched_ = 1;
      continue;
    }
    if (matched_ < kMarkerMagic.size()) {
      if (byte == kMarkerMagic[matched_]) {
        ++matched_;
        continue;
      }
      // Not a marker after all. No proper prefix of the magic is also a suffix of it (its first byte is
      // unique), so the held-back bytes are frame bytes and the search starts anew at this byte.
      if (state_ == State::kAttached) {
        ByteView held(reinterpret_cast<const std::byte*>(kMarkerMagic.data()),
                      matched_);  // SAFETY: bytes alias
        if (auto fed = feed(held, handler); !fed.ok()) outcome = std::move(fed);
      }
      clean = i;
      matched_ = 0;
      --i;
      continue;
    }
    // Inside the body of a marker. A new magic in here means that the marker itself was cut; the body holds
    // random bytes, so the only way to tell is to look for the whole magic at its end.
    body_.push_back(bytes[i]);
    clean = i + 1;
    if (body_.size() >= kMarkerMagic.size() && std::memcmp(body_.data() + body_.size() - kMarkerMagic.size(),
                                                           kMarkerMagic.data(), kMarkerMagic.size()) == 0) {
      body_.clear();
      continue;
    }
    if (body_.size() < kMarkerBytes - kMarkerMagic.size()) continue;
    Marker marker;
    if (!decode_marker_body(body_.data(), marker)) {
      // A cut marker with the next one behind it: the body may end in the beginning of the next magic.
      matched_ = kMarkerMagic.size() - 1;
      while (matched_ > 0 &&
             std::memcmp(body_.data() + body_.size() - matched_, kMarkerMagic.data(), matched_) != 0)
        --matched_;
      body_.clear();
      continue;
    }
    body_.clear();
    matched_ = 0;
    streams_.clear();
    partial_.clear();
    out_.clear();  // an answer to the old attachment is of no use; a frame that is half written is skipped by
                   // the peer
    out_begin_ = 0;
    highest_seen_ = 0;
    marker_ = marker;
    state_ = State::kAttached;
    std::byte echo[kMarkerBytes];
    encode_marker(kEchoMagic, Marker{marker.nonce, marker.generation, kProtocolVersion}, echo);
    emit_raw(echo, sizeof echo);
    handler.on_attached(marker);
  }
  if (matched_ == 0) flush(bytes.size());
  return outcome;
}

Result<void> Mux::feed(ByteView bytes, MuxHandler& handler) {
  while (!bytes.empty()) {
    if (state_ != State::kAttached) return {};  // a handler tore the attachment down
    if (partial_.empty() && bytes.size() >= kHeaderBytes) {
      // Whole frames are handled in place, without a copy.
      FrameHeader header;
      if (!decode_header(bytes.data(), header)) return fail("malformed frame header");
      std::size_t size = frame_bytes(header);
      if (bytes.size() >= size) {
        SPACE_CHECK_OK(on_frame(header, bytes.first(size), handler));
        offset_ += size;
        bytes = bytes.subspan(size);
        continue;
      }
    }
    std::size_t want = kHeaderBytes;
    FrameHeader header;
    if (partial_.size() >= kHeaderBytes) {
      if (!decode_header(partial_.data(), header)) return fail("malformed frame header");
      want = frame_bytes(header);
    }
    std::size_t take = std::min(want - partial_.size(), bytes.size());
    partial_.insert(partial_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(take));
    bytes = bytes.subspan(take);
    if (partial_.size() < want || want == kHeaderBytes) {
      if (partial_.size() == kHeaderBytes && want == kHeaderBytes &&
          !decode_header(partial_.data(), header)) {
        return fail("malformed frame header");
      }
      continue;
    }
    Bytes frame;
    frame.swap(partial_);
    SPACE_CHECK_OK(on_frame(header, frame, handler));
    offset_ += want;
    frame.clear();
    if (partial_.empty()) partial_.swap(frame);  // keep the capacity
  }
  return {};
}

Result<void> Mux::on_frame(const FrameHeader& header, ByteView frame, MuxHandler& handler) {
  ByteView payload = frame.subspan(kHeaderBytes, header.length);
  if (frame.back() != std::byte{0}) return fail("malformed frame trailer");
  if (header.nonce != marker_.nonce) return fail("frame of another attachment");
  if (header.stream == 0) return fail("stream 0");

  if (header.kind == FrameKind::kOpen) {
    if (role_ != Role::kAcceptor) return fail("the peer may not open calls");
    if (header.stream <= highest_seen_) return fail("reused stream number");
    highest_seen_ = header.stream;
    if (streams_.size() >= limits_.max_streams) {
      emit(FrameKind::kReset, header.stream, 0, {});
      return {};
    }
    streams_.try_emplace(header.stream);
    handler.on_open(header.stream, payload);
    return {};
  }

  Stream* stream = find(header.stream);
  if (stream == nullptr) {
    // Frames that crossed our END or RESET are normal; frames of a stream that never was are not.
    StreamId highest = role_ == Role::kAcceptor ? highest_seen_ : next_stream_ - 1;
    return header.stream > highest ? Result<void>(fail("unknown stream")) : Result<void>();
  }
  switch (header.kind) {
    case FrameKind::kMessage:
    case FrameKind::kData: {
      bool message = header.kind == FrameKind::kMessage;
      std::size_t cost = payload.size() + (message ? kMessageCost : 0);
      if (stream->ended_there) return fail("frame after end");
      if (!message && payload.empty()) return fail("empty data frame");
      if (cost > stream->receive_window) return fail("window exceeded");
      stream->receive_window -= cost;
      if (message) {
        handler.on_message(header.stream, payload);
      } else {
        handler.on_data(header.stream, header.channel, payload);
      }
      return {};
    }
    case FrameKind::kCredit: {
      if (payload.size() != 4) return fail("malformed credit");
      auto credit = load_le<std::uint32_t>(payload.data());
      if (credit > kWindowBytes || stream->send_window + credit > kWindowBytes)
        return fail("too much credit");
      stream->send_window += credit;
      handler.on_credit(header.stream);
      return {};
    }
    case FrameKind::kEnd: {
      if (stream->ended_there) return fail("second end");
      stream->ended_there = true;
      // An acceptor's END closes the whole call.
      if (role_ == Role::kInitiator) {
        streams_.erase(header.stream);
      } else {
        forget_if_done(header.stream, *stream);
      }
      handler.on_end(header.stream, payload);
      return {};
    }
    case FrameKind::kReset:
      streams_.erase(header.stream);
      handler.on_reset(header.stream);
      return {};
    case FrameKind::kOpen:
      break;
  }
  return fail("unknown frame kind");
}

Result<StreamId> Mux::open(ByteView request) {
  if (state_ != State::kAttached)
    return make_error(Code::kUnavailable, "wire.not_attached", "the channel is not attached");
  if (streams_.size() >= limits_.max_streams) {
    return make_error(Code::kResourceExhausted, "wire.too_many_streams",
                      "too many calls at once on this channel; end some");
  }
  if (request.size() > kMaxMessageBytes) {
    return make_error(Code::kInvalidArgument, "wire.message_too_large", "a request may have at most 64 KiB");
  }
  if (find_marker_magic(request) != kNoMarker) {
    return make_error(Code::kInvalidArgument, "wire.forbidden_bytes",
                      "the request contains the reserved byte sequence");
  }
  StreamId stream = next_stream_++;
  streams_.try_emplace(stream);
  emit(FrameKind::kOpen, stream, 0, request);
  return stream;
}

std::size_t Mux::writable(StreamId stream) const {
  auto it = streams_.find(stream);
  return it == streams_.end() || it->second.ended_here ? 0 : it->second.send_window;
}

bool Mux::can_send_message(StreamId stream, std::size_t size) const {
  return writable(stream) >= size + kMessageCost;
}

Result<void> Mux::send_message(StreamId stream, ByteView message) {
  if (message.size() > kMaxMessageBytes) {
    return make_error(Code::kInvalidArgument, "wire.message_too_large", "a message may have at most 64 KiB");
  }
  if (role_ == Role::kInitiator && find_marker_magic(message) != kNoMarker) {
    return make_error(Code::kInvalidArgument, "wire.forbidden_bytes",
                      "the message contains the reserved byte sequence");
  }
  if (!can_send_message(stream, message.size()))
    return make_error(Code::kUnavailable, "wire.no_credit", "the stream has no window left");
  find(stream)->send_window -= message.size() + kMessageCost;
  emit(FrameKind::kMessage, stream, 0, message);
  return {};
}

std::size_t Mux::send_data(StreamId stream, std::uint8_t channel, ByteView data) {
  std::size_t total = std::min(data.size(), writable(stream));
  if (total == 0) return 0;
  find(stream)->send_window -= total;
  for (ByteView rest = data.first(total); !rest.empty();) {
    std::size_t take = std::min(rest.size(), kMaxDataBytes);
    if (role_ == Role::kInitiator) {
      // Looks a little beyond the cut, so that a magic that straddles two frames is no concern: they are
      // apart anyway.
      if (std::size_t at = find_marker_magic(rest.first(take)); at != kNoMarker)
        take = at + kMarkerMagic.size() / 2;
    }
    emit(FrameKind::kData, stream, channel, rest.first(take));
    rest = rest.subspan(take);
  }
  return total;
}

void Mux::end(StreamId stream, ByteView status) {
  Stream* state = find(stream);
  if (state == nullptr || state->ended_here) return;
  state->ended_here = true;
  emit(FrameKind::kEnd, stream, 0, status);
  if (role_ == Role::kAcceptor) {
    streams_.erase(stream);
  }
}

void Mux::reset(StreamId stream) {
  if (streams_.erase(stream) != 0) emit(FrameKind::kReset, stream, 0, {});
}

void Mux::grant(StreamId stream, std::size_t bytes) {
  Stream* state = find(stream);
  if (state == nullptr) return;
  state->ungranted += bytes;
  // Told in large steps, so that credits are a small part of the traffic.
  if (state->ungranted < kWindowBytes / 4 || state->ended_there) return;
  state->receive_window += state->ungranted;
  std::byte payload[4];
  store_le(payload, static_cast<std::uint32_t>(state->ungranted));
  state->ungranted = 0;
  emit(FrameKind::kCredit, stream, 0, payload);
}

void Mux::consumed(std::size_t bytes) {
  out_begin_ += bytes;
  if (out_begin_ == out_.size()) {
    out_.clear();
    out_begin_ = 0;
  } else if (out_begin_ >= (256u << 10)) {
    out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(out_begin_));
    out_begin_ = 0;
  }
}

void Mux::emit(FrameKind kind, StreamId stream, std::uint8_t channel, ByteView payload) {
  std::byte header[kHeaderBytes];
  encode_header({marker_.nonce, static_cast<std::uint32_t>(payload.size()), stream, kind, channel}, header);
  emit_raw(header, sizeof header);
  emit_raw(payload.data(), payload.size());
  const std::byte trailer{0};
  emit_raw(&trailer, 1);
}

void Mux::emit_raw(const std::byte* at, std::size_t size) {
  out_.insert(out_.end(), at, at + size);
}

Mux::Stream* Mux::find(StreamId stream) {
  auto it = streams_.find(stream);
  return it == streams_.end() ? nullptr : &it->second;
}

void Mux::forget_if_done(StreamId stream, const Stream& state) {
  if (state.ended_here && state.ended_there) streams_.erase(stream);
}

}  // namespace space::wire
