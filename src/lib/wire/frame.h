// SPDX-License-Identifier: Apache-2.0
#pragma once
// The byte layout that every channel of the platform shares: host to daemon, control to node, control and
// node to link. Pure: no I/O, no clock. Posture: hostile-guest (the decoder of the host side reads guest
// bytes).
//
// Frame, little-endian:            Resync marker and echo:
//   0  u32  kFrameMagic              0  16 B  kMarkerMagic or kEchoMagic
//   4  16 B attachment nonce        16  16 B  nonce
//  20  u32  payload length          32  u64   generation
//  24  u32  stream                  40  u32   protocol version
//  28  u8   kind                    44  u32   FNV-1a of bytes 16..43
//  29  u8   channel                 48
//  30  u16  zero
//  32  payload
//   .  u8   zero (trailer)
//
// The initiator of a connection may be cut in the middle of a frame and start anew, so its peer must find a
// marker anywhere in the stream. Therefore the marker magic never occurs inside what the initiator sends
// otherwise: DATA that contains it is split in two frames, messages that contain it are refused, and since
// header and trailer end in zero, which is no byte of the magic, a prefix of it is always resolved within its
// own frame.

#include <array>
#include <cstddef>
#include <cstdint>

#include "lib/base/bytes.h"

namespace space::wire {

inline constexpr std::uint32_t kProtocolVersion = 1;

inline constexpr std::uint32_t kFrameMagic = 0x31465053;  // "SPF1"
inline constexpr std::size_t kHeaderBytes = 32;
inline constexpr std::size_t kTrailerBytes = 1;
inline constexpr std::size_t kMarkerBytes = 48;
inline constexpr std::size_t kMaxPayloadBytes = 64u << 10;

using Nonce = std::array<std::byte, 16>;

enum class FrameKind : std::uint8_t {
  kOpen = 1,     // initiator only: a new stream, payload is the request
  kMessage = 2,  // a FlatBuffer
  kData = 3,     // bytes of `channel`
  kCredit = 4,   // u32: the receiver consumed this many bytes of window
  kEnd = 5,      // the sender has finished; the acceptor's carries a fb.Status
  kReset = 6,    // the stream is gone in both directions, payload empty
};

// 16 bytes without zero, 'S' and each other's prefixes.
inline constexpr std::array<unsigned char, 16> kMarkerMagic = {
    0xf5, 0xd1, 0x9b, 0xc7, 0x83, 0xe9, 0xa1, 0xbd, 0x97, 0xf1, 0x8d, 0xcb, 0xdf, 0x95, 0xe3, 0xab};
inline constexpr std::array<unsigned char, 16> kEchoMagic = {0xf7, 0xd3, 0x99, 0xc5, 0x81, 0xeb, 0xa3, 0xbf,
                                                             0x95, 0xf3, 0x8f, 0xc9, 0xdd, 0x97, 0xe1, 0xa9};

struct FrameHeader {
  Nonce nonce{};
  std::uint32_t length = 0;
  std::uint32_t stream = 0;
  FrameKind kind{};
  std::uint8_t channel = 0;
};

void encode_header(const FrameHeader& header, std::byte* out32);
// False when magic, kind, reserved bits or length are out of bounds.
bool decode_header(const std::byte* in32, FrameHeader& out);

struct Marker {
  Nonce nonce{};
  std::uint64_t generation = 0;
  std::uint32_t version = kProtocolVersion;
};

void encode_marker(const std::array<unsigned char, 16>& magic, const Marker& marker, std::byte* out48);
// Reads bytes 16..47 of a marker whose magic has been matched; false when the checksum is wrong.
bool decode_marker_body(const std::byte* in32, Marker& out);

// Offset of kMarkerMagic in `bytes`, or npos.
inline constexpr std::size_t kNoMarker = static_cast<std::size_t>(-1);
std::size_t find_marker_magic(ByteView bytes);

}  // namespace space::wire
