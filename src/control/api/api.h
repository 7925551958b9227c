// SPDX-License-Identifier: Apache-2.0
#pragma once
// The API as one HTTP handler: finds the route, asks for a key, lets the route's handler answer.
// Routes are those of api/openapi.yaml; tests/conformance compares the two.

#include <vector>

#include "control/api/handler.h"
#include "lib/http/router.h"
#include "lib/http/server.h"

namespace space::control::api {

class Api {
 public:
  explicit Api(Services services);

  async::Task<void> answer(http::Exchange& exchange);
  // Errors that the server finds before there is a request.
  static http::Response error_page(const Error& error);

 private:
  enum class Access : std::uint8_t { kKey, kOpen };
  struct Route {
    HandlerFunction handler;
    Access access;
  };
  void add(const char* method, const char* path, HandlerFunction handler, Access access = Access::kKey);

  Services services_;
  http::Router router_;
  std::vector<Route> routes_;
};

}  // namespace space::control::api
