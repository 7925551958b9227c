// SPDX-License-Identifier: Apache-2.0
#include "control/api/utf8.h"

namespace space::control::api {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// Bounds of the second byte of a sequence (Unicode 15, table 3-7) and its length; 0 for a byte that begins
// none.
struct Lead {
  std::size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xbf;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte >= 0xc2 && byte <= 0xdf) return {2};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte >= 0xe1 && byte <= 0xef) return {3};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte >= 0xf1 && byte <= 0xf3) return {4};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {};
}

// How many bytes at the start belong together, and whether they are a whole sequence.
std::size_t measure(std::string_view text, bool& whole) {
  Lead lead = lead_of(static_cast<unsigned char>(text[0]));
  whole = lead.length == 1;
  if (lead.length <= 1) return 1;
  std::size_t have = 1;
  while (have < lead.length && have < text.size()) {
    auto byte = static_cast<unsigned char>(text[have]);
    unsigned char low = have == 1 ? lead.low : 0x80;
    unsigned char high = have == 1 ? lead.high : 0xbf;
    if (byte < low || byte > high) return have;
    ++have;
  }
  whole = have == lead.length;
  return have;
}

}  // namespace

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    bool whole = false;
    std::size_t size = measure(text, whole);
    out += whole ? text.substr(0, size) : kReplacement;
    text.remove_prefix(size);
  }
  return out;
}

}  // namespace space::control::api
