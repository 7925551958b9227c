// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a server is, and text that is safe inside a request target. Pure.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"

namespace space::http::client {

// Value type.
struct Endpoint {
  std::string host;    // name or address, IPv6 without brackets
  std::string port;    // decimal
  std::string prefix;  // path in front of every target: empty, or "/x" without a slash at its end

  // The authority as it stands in a URL and in the Host header: "[::1]:80".
  [[nodiscard]] std::string authority() const;
  // "http://host:port/prefix".
  [[nodiscard]] std::string url() const;
  bool operator==(const Endpoint&) const = default;
};

// Splits "http://HOST[:PORT][/PREFIX]" (port 80 by default). Errors: http.bad_url with field "url";
// http.no_tls for https, which this client doesn't speak.
Result<Endpoint> parse_url(std::string_view url);

// Everything but letters, digits and "-._~" becomes %XX: fit for one path segment or one query value.
std::string percent_encode(std::string_view text);

// "?a=b&c=d" with encoded values; empty without parameters.
std::string query(const std::vector<std::pair<std::string, std::string>>& parameters);

}  // namespace space::http::client
