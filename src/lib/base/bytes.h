// SPDX-License-Identifier: Apache-2.0
#pragma once
// Byte views and owned bytes, and little-endian integers in them. Pure.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace space {

using ByteView = std::span<const std::byte>;
using Bytes = std::vector<std::byte>;

inline ByteView as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};  // SAFETY: char may alias bytes
}
inline std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};  // SAFETY: char may alias bytes
}
inline Bytes to_bytes(ByteView view) {
  return {view.begin(), view.end()};
}
inline Bytes to_bytes(std::string_view text) {
  return to_bytes(as_bytes(text));
}
inline std::string to_text(ByteView bytes) {
  return std::string(as_text(bytes));
}

// Unaligned little-endian access; the caller has checked the bounds.
template <class Integer>
Integer load_le(const std::byte* at) {
  static_assert(std::is_unsigned_v<Integer>);
  Integer value;
  std::memcpy(&value, at, sizeof value);
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  return value;
}
template <class Integer>
void store_le(std::byte* at, Integer value) {
  static_assert(std::is_unsigned_v<Integer>);
  std::memcpy(at, &value, sizeof value);
}

// Text made safe for a log or a terminal: control characters, DEL and bytes above 0x7e become \xNN; at most
// `max` bytes of the original are shown, the cut is marked with "...".
std::string escape(std::string_view text, std::size_t max = 200);

// Lower-case hexadecimal.
std::string to_hex(ByteView bytes);

}  // namespace space
