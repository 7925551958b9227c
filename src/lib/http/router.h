// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which handler answers a method and a path. Templates look like "/v1/sessions/{session}/files"; a parameter
// takes one segment, which is not empty. A fixed segment wins over a parameter. Pure.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace space::http {

struct PathParameters {
  std::vector<std::pair<std::string, std::string>> values;
  // Precondition: the template has that parameter.
  [[nodiscard]] const std::string& operator[](std::string_view name) const;
};

// Maps to indexes that the owner gave: a router knows nothing of handlers.
class Router {
 public:
  void add(std::string_view method, std::string_view path_template, std::size_t handler);

  struct Match {
    enum class Kind { kFound, kWrongMethod, kNotFound };
    Kind kind = Kind::kNotFound;
    std::size_t handler = 0;
    PathParameters parameters;
    std::string allowed;  // kWrongMethod: "GET, HEAD"
  };
  [[nodiscard]] Match match(std::string_view method, const std::vector<std::string>& segments) const;

 private:
  struct Route {
    std::string method;
    std::vector<std::string> segments;  // "{name}" for parameters
    std::size_t handler;
  };
  std::vector<Route> routes_;
};

}  // namespace space::http
