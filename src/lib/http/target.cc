// SPDX-License-Identifier: Apache-2.0
#include "lib/http/target.h"

#include <optional>

namespace space::http {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    int high = hex_value(text[i + 1]);
    int low = hex_value(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

// Calls `take` with each part of `text` between separators.
template <class Take>
bool split(std::string_view text, char separator, Take take) {
  for (;;) {
    auto at = text.find(separator);
    if (!take(text.substr(0, at))) return false;
    if (at == std::string_view::npos) return true;
    text.remove_prefix(at + 1);
  }
}

}  // namespace

const std::string* Target::parameter(std::string_view name) const {
  for (const auto& [key, value] : query) {
    if (key == name) return &value;
  }
  return nullptr;
}

Result<Target> parse_target(std::string_view text) {
  auto bad = [] {
    return make_error(Code::kInvalidArgument, "http.malformed_target", "the request target is malformed");
  };
  text = text.substr(0, text.find('#'));
  if (text.empty() || text.front() != '/') return bad();
  auto mark = text.find('?');
  Target target;
  bool fine = split(text.substr(1, mark == std::string_view::npos ? mark : mark - 1), '/',
                    [&](std::string_view part) {
                      auto segment = percent_decode(part);
                      if (segment) target.segments.push_back(std::move(*segment));
                      return segment.has_value();
                    });
  if (!fine) return bad();
  if (mark == std::string_view::npos || mark + 1 == text.size()) return target;
  fine = split(text.substr(mark + 1), '&', [&](std::string_view part) {
    if (part.empty()) return true;
    auto equals = part.find('=');
    auto key = percent_decode(part.substr(0, equals));
    auto value =
        percent_decode(equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1));
    if (key && value) target.query.emplace_back(std::move(*key), std::move(*value));
    return key && value;
  });
  if (!fine) return bad();
  return target;
}

}  // namespace space::http
