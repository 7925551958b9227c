// SPDX-License-Identifier: Apache-2.0
#include "cli/printable.h"

#include <cstdio>

namespace space::cli {
namespace {

constexpr char32_t kInvalid = 0xffffffff;

struct Decoded {
  char32_t point;      // kInvalid: not UTF-8
  std::size_t length;  // bytes taken, at least 1
};

// How many bytes a sequence with this first byte has; 0 when none begins so.
std::size_t sequence_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first >= 0xe0 && first <= 0xef) return 3;
  if (first >= 0xf0 && first <= 0xf4) return 4;
  return 0;
}

Decoded decode(std::string_view text) {
  auto first = static_cast<unsigned char>(text[0]);
  std::size_t length = sequence_length(first);
  if (length == 0 || length > text.size()) return {kInvalid, 1};
  if (length == 1) return {first, 1};
  char32_t point = first & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0U) != 0x80) return {kInvalid, 1};
    point = point << 6 | (next & 0x3fU);
  }
  static constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  bool surrogate = point >= 0xd800 && point <= 0xdfff;
  if (point < kLeast[length] || surrogate || point > 0x10ffff) return {kInvalid, 1};
  return {point, length};
}

bool steers(char32_t point) {
  if (point < 0x20 || (point >= 0x7f && point < 0xa0)) return true;  // C0, DEL, C1
  if (point >= 0x202a && point <= 0x202e) return true;               // bidirectional embeddings and overrides
  if (point >= 0x2066 && point <= 0x2069) return true;               // bidirectional isolates
  if (point == 0x200e || point == 0x200f || point == 0x061c) return true;  // direction marks
  if (point == 0x2028 || point == 0x2029 || point == 0xfeff) return true;  // line ends, byte-order mark
  return point >= 0xe0000 && point <= 0xe007f;                             // invisible tags
}

}  // namespace

std::string printable(std::string_view text, Lines lines) {
  std::string out;
  char buffer[16];
  while (!text.empty()) {
    auto [point, length] = decode(text);
    bool plain_space = lines == Lines::kMany && (point == '\n' || point == '\t');
    if (point == kInvalid || (point < 0x80 && steers(point) && !plain_space)) {
      std::snprintf(buffer, sizeof buffer, "\\x%02x", static_cast<unsigned char>(text[0]));
      out += buffer;
    } else if (steers(point) && !plain_space) {
      std::snprintf(buffer, sizeof buffer, "\\u{%x}", static_cast<unsigned>(point));
      out += buffer;
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  return out;
}

std::size_t incomplete_tail(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0U) == 0x80) continue;
    return sequence_length(byte) > back ? back : 0;
  }
  return 0;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    auto [point, length] = decode(text);
    if (point == kInvalid) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::size_t columns(std::string_view text) {
  std::size_t count = 0;
  while (!text.empty()) {
    text.remove_prefix(decode(text).length);
    ++count;
  }
  return count;
}

}  // namespace space::cli
