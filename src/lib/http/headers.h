// SPDX-License-Identifier: Apache-2.0
#pragma once
// Header fields of a request or response, in order, names compared without case. A value that would break the
// message's framing can't be stored: see set(). Value type. Posture: hostile-network.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace space::http {

bool equals_ignoring_case(std::string_view a, std::string_view b);

class Headers {
 public:
  // Replaces a field of that name. Bytes of `value` below 0x20, and DEL, become '?': a header can't be
  // injected. Precondition: `name` is a token written in the source, never a client's or guest's.
  void set(std::string_view name, std::string_view value);
  // As received: several fields of one name are kept.
  void add_received(std::string_view name, std::string_view value);
  // The first field of that name, or nothing.
  [[nodiscard]] const std::string* find(std::string_view name) const;
  // The value, or empty.
  [[nodiscard]] std::string_view get(std::string_view name) const;
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& all() const { return fields_; }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

// "OK" for 200 and so on; "Unknown" for numbers that are not used here.
std::string_view status_text(unsigned status);

}  // namespace space::http
