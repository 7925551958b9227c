// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/frame.h"

#include <algorithm>
#include <cstring>

namespace space::wire {
namespace {

std::uint32_t fnv1a(const std::byte* at, std::size_t size) {
  std::uint32_t hash = 2166136261U;
  for (std::size_t i = 0; i < size; ++i) hash = (hash ^ static_cast<std::uint32_t>(at[i])) * 16777619U;
  return hash;
}

}  // namespace

void encode_header(const FrameHeader& header, std::byte* out32) {
  store_le(out32, kFrameMagic);
  std::memcpy(out32 + 4, header.nonce.data(), header.nonce.size());
  store_le(out32 + 20, header.length);
  store_le(out32 + 24, header.stream);
  out32[28] = static_cast<std::byte>(header.kind);
  out32[29] = static_cast<std::byte>(header.channel);
  out32[30] = out32[31] = std::byte{0};
}

bool decode_header(const std::byte* in32, FrameHeader& out) {
  if (load_le<std::uint32_t>(in32) != kFrameMagic) return false;
  std::memcpy(out.nonce.data(), in32 + 4, out.nonce.size());
  out.length = load_le<std::uint32_t>(in32 + 20);
  out.stream = load_le<std::uint32_t>(in32 + 24);
  auto kind = static_cast<std::uint8_t>(in32[28]);
  out.kind = static_cast<FrameKind>(kind);
  out.channel = static_cast<std::uint8_t>(in32[29]);
  return kind >= 1 && kind <= 6 && in32[30] == std::byte{0} && in32[31] == std::byte{0} &&
         out.length <= kMaxPayloadBytes;
}

void encode_marker(const std::array<unsigned char, 16>& magic, const Marker& marker, std::byte* out48) {
  std::memcpy(out48, magic.data(), magic.size());
  std::memcpy(out48 + 16, marker.nonce.data(), marker.nonce.size());
  store_le(out48 + 32, marker.generation);
  store_le(out48 + 40, marker.version);
  store_le(out48 + 44, fnv1a(out48 + 16, 28));
}

bool decode_marker_body(const std::byte* in32, Marker& out) {
  std::memcpy(out.nonce.data(), in32, out.nonce.size());
  out.generation = load_le<std::uint64_t>(in32 + 16);
  out.version = load_le<std::uint32_t>(in32 + 24);
  return load_le<std::uint32_t>(in32 + 28) == fnv1a(in32, 28);
}

std::size_t find_marker_magic(ByteView bytes) {
  if (bytes.empty()) return kNoMarker;  // memmem takes no null pointer
  const void* hit = memmem(bytes.data(), bytes.size(), kMarkerMagic.data(), kMarkerMagic.size());
  return hit == nullptr ? kNoMarker
                        : static_cast<std::size_t>(static_cast<const std::byte*>(hit) - bytes.data());
}

}  // namespace space::wire
