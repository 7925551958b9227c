// SPDX-License-Identifier: Apache-2.0
#pragma once
// The target of a request line taken apart: path segments and query, percent-decoded. Pure. Posture:
// hostile-network.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"

namespace space::http {

struct Target {
  // Decoded segments: "/v1/a%2Fb" -> {"v1", "a/b"}. A trailing slash is an empty last segment.
  std::vector<std::string> segments;
  // Decoded pairs in order; '+' stands for itself, since paths of files may contain it. Any byte may occur.
  std::vector<std::pair<std::string, std::string>> query;

  // The first value of that name, or null.
  [[nodiscard]] const std::string* parameter(std::string_view name) const;
};

// Only the origin form ("/path?query") is accepted. Errors: http.malformed_target.
Result<Target> parse_target(std::string_view text);

}  // namespace space::http
