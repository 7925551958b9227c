// SPDX-License-Identifier: Apache-2.0
#include "lib/base/bytes.h"

namespace space {
namespace {
constexpr char kHex[] = "0123456789abcdef";
}

std::string escape(std::string_view text, std::size_t max) {
  std::string out;
  for (char c : text.substr(0, max)) {
    auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '\\') {
      out += c;
    } else {
      out.append("\\x").append(1, kHex[byte >> 4]).append(1, kHex[byte & 15]);
    }
  }
  if (text.size() > max) out += "...";
  return out;
}

std::string to_hex(ByteView bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (std::byte b : bytes) {
    auto byte = static_cast<unsigned char>(b);
    out.append(1, kHex[byte >> 4]).append(1, kHex[byte & 15]);
  }
  return out;
}

}  // namespace space
