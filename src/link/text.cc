// SPDX-License-Identifier: Apache-2.0
#include "link/text.h"

#include <algorithm>
#include <cstdint>

#include "lib/base/bytes.h"

namespace space::link {
namespace {

unsigned char byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

// Length of the valid sequence at `at`, or 0.
std::size_t sequence_at(std::string_view text, std::size_t at) {
  unsigned char first = byte_at(text, at);
  if (first < 0x80) return 1;
  std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() - at < length) return 0;
  std::uint32_t value = first & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    unsigned char next = byte_at(text, at + i);
    if ((next & 0xc0U) != 0x80) return 0;
    value = (value << 6) | (next & 0x3fU);
  }
  bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  bool surrogate = value >= 0xd800 && value < 0xe000;
  return overlong || surrogate || value > 0x10ffff ? 0 : length;
}

}  // namespace

std::string repair_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = sequence_at(text, at);
    if (length == 0) {
      out += "\xef\xbf\xbd";
      ++at;
    } else {
      out += text.substr(at, length);
      at += length;
    }
  }
  return out;
}

std::string one_line(std::string_view text, std::size_t max) {
  std::string line = escape(text, max);
  if (line.size() > max) line.resize(max);
  return line;
}

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

}  // namespace space::link
