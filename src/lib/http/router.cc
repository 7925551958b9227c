// SPDX-License-Identifier: Apache-2.0
#include "lib/http/router.h"

#include "lib/base/check.h"

namespace space::http {
namespace {

bool is_parameter(const std::string& segment) {
  return segment.size() > 2 && segment.front() == '{';
}

bool fits(const std::vector<std::string>& pattern, const std::vector<std::string>& segments) {
  if (pattern.size() != segments.size()) return false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (is_parameter(pattern[i]) ? segments[i].empty() : pattern[i] != segments[i]) return false;
  }
  return true;
}

// Is `a` more specific than `b`, both of which fit the same path?
bool more_specific(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (is_parameter(a[i]) != is_parameter(b[i])) return !is_parameter(a[i]);
  }
  return false;
}

}  // namespace

const std::string& PathParameters::operator[](std::string_view name) const {
  for (const auto& [key, value] : values) {
    if (key == name) return value;
  }
  SPACE_CHECK(!"a parameter that the path template has");
  std::abort();
}

void Router::add(std::string_view method, std::string_view path_template, std::size_t handler) {
  Route route{std::string(method), {}, handler};
  SPACE_CHECK(!path_template.empty() && path_template.front() == '/');
  for (;;) {
    path_template.remove_prefix(1);
    auto slash = path_template.find('/');
    route.segments.emplace_back(path_template.substr(0, slash));
    if (slash == std::string_view::npos) break;
    path_template.remove_prefix(slash);
  }
  routes_.push_back(std::move(route));
}

Router::Match Router::match(std::string_view method, const std::vector<std::string>& segments) const {
  Match match;
  const Route* best = nullptr;
  for (const Route& route : routes_) {
    if (!fits(route.segments, segments)) continue;
    if (route.method != method) {
      if (!match.allowed.empty()) match.allowed += ", ";
      match.allowed += route.method;
      continue;
    }
    if (best == nullptr || more_specific(route.segments, best->segments)) best = &route;
  }
  if (best == nullptr) {
    match.kind = match.allowed.empty() ? Match::Kind::kNotFound : Match::Kind::kWrongMethod;
    return match;
  }
  match.kind = Match::Kind::kFound;
  match.handler = best->handler;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::string& pattern = best->segments[i];
    if (is_parameter(pattern))
      match.parameters.values.emplace_back(pattern.substr(1, pattern.size() - 2), segments[i]);
  }
  return match;
}

}  // namespace space::http
