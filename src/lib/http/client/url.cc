// SPDX-License-Identifier: Apache-2.0
#include "lib/http/client/url.h"

#include <algorithm>
#include <charconv>

namespace space::http::client {
namespace {

Error bad_url(const std::string& why) {
  return field_error("url", "http.bad_url", why + "; a server's URL looks like http://127.0.0.1:7350");
}

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_port(std::string_view text) {
  unsigned value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 1 && value <= 65535;
}

bool is_host(std::string_view text) {
  return !text.empty() && text.size() <= 253 && std::all_of(text.begin(), text.end(), [](char c) {
    return is_alnum(c) || c == '-' || c == '.' || c == '_';
  });
}

bool is_ipv6(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char c) { return is_alnum(c) || c == ':' || c == '.' || c == '%'; });
}

}  // namespace

std::string Endpoint::authority() const {
  std::string shown = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return shown + ":" + port;
}

std::string Endpoint::url() const {
  return "http://" + authority() + prefix;
}

Result<Endpoint> parse_url(std::string_view url) {
  if (url.starts_with("https://")) {
    return make_error(
        Code::kUnimplemented, "http.no_tls",
        "https is not supported by this client yet; use an http:// URL on a trusted network or a tunnel");
  }
  if (!url.starts_with("http://")) return bad_url("the URL must begin with http://");
  std::string_view rest = url.substr(7);
  Endpoint endpoint;
  if (auto slash = rest.find('/'); slash != std::string_view::npos) {
    endpoint.prefix = std::string(rest.substr(slash));
    rest = rest.substr(0, slash);
  }
  while (endpoint.prefix.ends_with('/')) endpoint.prefix.pop_back();
  auto odd = [](char c) { return c <= 0x20 || c >= 0x7f || c == '?' || c == '#'; };
  if (std::any_of(endpoint.prefix.begin(), endpoint.prefix.end(), odd))
    return bad_url("the path has odd characters");

  std::string_view host = rest;
  std::string_view port = "80";
  if (rest.starts_with('[')) {
    auto close = rest.find(']');
    if (close == std::string_view::npos) return bad_url("the address lacks its closing bracket");
    host = rest.substr(1, close - 1);
    rest = rest.substr(close + 1);
    if (!is_ipv6(host)) return bad_url("the address in brackets is malformed");
    if (!rest.empty()) {
      if (!rest.starts_with(':')) return bad_url("after the address there must be a port");
      port = rest.substr(1);
    }
  } else {
    if (auto colon = rest.rfind(':'); colon != std::string_view::npos) {
      host = rest.substr(0, colon);
      port = rest.substr(colon + 1);
    }
    if (!is_host(host)) return bad_url("the host name is malformed");
  }
  if (!is_port(port)) return bad_url("the port must be 1 to 65535");
  endpoint.host = std::string(host);
  endpoint.port = std::string(port);
  return endpoint;
}

std::string percent_encode(std::string_view text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (char c : text) {
    if (is_alnum(c) || c == '-' || c == '.' || c == '_' || c == '~') {
      out += c;
      continue;
    }
    auto byte = static_cast<unsigned char>(c);
    out.append(1, '%').append(1, kHex[byte >> 4]).append(1, kHex[byte & 15]);
  }
  return out;
}

std::string query(const std::vector<std::pair<std::string, std::string>>& parameters) {
  std::string out;
  for (const auto& [name, value] : parameters) {
    out.append(out.empty() ? "?" : "&")
        .append(percent_encode(name))
        .append("=")
        .append(percent_encode(value));
  }
  return out;
}

}  // namespace space::http::client
