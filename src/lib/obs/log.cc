// SPDX-License-Identifier: Apache-2.0
#include "lib/obs/log.h"

#include <unistd.h>

namespace space::obs {
namespace {

constexpr std::string_view kLevels[] = {"debug", "info", "warning", "error"};
constexpr std::size_t kMaxValueBytes = 2048;

// Length of the valid UTF-8 sequence at the start of `text`, 0 when there is none.
std::size_t utf8_length(std::string_view text) {
  auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  auto tail = [&](std::size_t i) { return (at(i) & 0xc0) == 0x80; };
  unsigned first = at(0);
  if (first >= 0xc2 && first <= 0xdf && tail(1)) return 2;
  if (first >= 0xe0 && first <= 0xef && tail(1) && tail(2)) {
    unsigned value = (first & 0x0f) << 12 | (at(1) & 0x3f) << 6 | (at(2) & 0x3f);
    return value >= 0x800 && (value < 0xd800 || value > 0xdfff) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4 && tail(1) && tail(2) && tail(3)) {
    unsigned value = (first & 0x07) << 18 | (at(1) & 0x3f) << 12 | (at(2) & 0x3f) << 6 | (at(3) & 0x3f);
    return value >= 0x10000 && value <= 0x10ffff ? 4 : 0;
  }
  return 0;
}

void append_unicode(std::string& out, unsigned value) {
  constexpr char kHex[] = "0123456789abcdef";
  out += "\\u00";
  out += kHex[value >> 4 & 15];
  out += kHex[value & 15];
}

}  // namespace

std::string json_quote(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    auto byte = static_cast<unsigned char>(text[0]);
    std::size_t take = 1;
    if (byte == '"' || byte == '\\') {
      out.append("\\").append(1, text[0]);
    } else if (byte >= 0x20 && byte < 0x7f) {
      out += text[0];
    } else if (byte < 0x80) {
      append_unicode(out, byte);
    } else if (std::size_t length = utf8_length(text); length != 0) {
      out.append(text.substr(0, length));
      take = length;
    } else {
      append_unicode(out, byte);
    }
    text.remove_prefix(take);
  }
  return out += '"';
}

void Log::write(Level level, std::string_view event, std::initializer_list<Field> fields) const {
  if (level < least_) return;
  std::string line = "{\"time\":\"" + to_rfc3339(clock_.wall()) + "\",\"level\":\"";
  line.append(kLevels[static_cast<std::size_t>(level)])
      .append("\",\"process\":")
      .append(json_quote(process_));
  line.append(",\"event\":").append(json_quote(event));
  for (const auto& [name, value] : fields) {
    line.append(",")
        .append(json_quote(name))
        .append(":")
        .append(json_quote(std::string_view(value).substr(0, kMaxValueBytes)));
  }
  line += "}\n";
  // A log that can't be written must not stop the work.
  [[maybe_unused]] ssize_t ignored = ::write(fd_, line.data(), line.size());
}

}  // namespace space::obs
