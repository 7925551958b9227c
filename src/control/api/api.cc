// SPDX-License-Identifier: Apache-2.0
#include "control/api/api.h"

#include "control/api/guest_handlers.h"
#include "control/api/session_handlers.h"

namespace space::control::api {
namespace {

// The key of "Authorization: Bearer KEY"; empty when there is none.
std::string_view presented_key(const http::Exchange& exchange) {
  std::string_view header = exchange.request().headers.get("Authorization");
  constexpr std::string_view kScheme = "Bearer ";
  if (header.size() <= kScheme.size() ||
      !http::equals_ignoring_case(header.substr(0, kScheme.size()), kScheme))
    return {};
  return header.substr(kScheme.size());
}

}  // namespace

Api::Api(Services services) : services_(std::move(services)) {
  add("GET", "/v1/health", get_health, Access::kOpen);
  add("GET", "/v1/openapi.yaml", get_openapi, Access::kOpen);

  add("POST", "/v1/sessions", create_session);
  add("GET", "/v1/sessions", list_sessions);
  add("GET", "/v1/sessions/{session}", get_session);
  add("DELETE", "/v1/sessions/{session}", kill_session);
  add("PATCH", "/v1/sessions/{session}", change_session);

  add("GET", "/v1/sessions/{session}/exec", exec);
  add("POST", "/v1/sessions/{session}/commands", start_command);
  add("GET", "/v1/sessions/{session}/commands", list_commands);
  add("GET", "/v1/sessions/{session}/commands/{command}", get_command);
  add("GET", "/v1/sessions/{session}/commands/{command}/attach", attach);
  add("POST", "/v1/sessions/{session}/commands/{command}/signal", signal_command);

  add("GET", "/v1/sessions/{session}/files", read_file);
  add("HEAD", "/v1/sessions/{session}/files", read_file);
  add("PUT", "/v1/sessions/{session}/files", write_file);
  add("DELETE", "/v1/sessions/{session}/files", remove_file);
  add("GET", "/v1/sessions/{session}/files/stat", stat_file);
  add("GET", "/v1/sessions/{session}/files/list", list_files);
  add("POST", "/v1/sessions/{session}/files/move", move_file);
  add("POST", "/v1/sessions/{session}/files/mkdir", make_directory);
  add("GET", "/v1/sessions/{session}/files/watch", watch_files);

  add("GET", "/v1/sessions/{session}/ports/{port}", connect_port);
  add("GET", "/v1/sessions/{session}/metrics", get_metrics);
  add("GET", "/v1/sessions/{session}/logs", get_logs);

  add("GET", "/v1/operations", list_operations);
  add("GET", "/v1/operations/{operation}", get_operation);
  add("GET", "/v1/templates", list_templates);
  add("POST", "/v1/templates", build_template);
  add("GET", "/v1/templates/{template}", get_template);
  add("DELETE", "/v1/templates/{template}", remove_template);
  add("GET", "/v1/node", get_node);
}

void Api::add(const char* method, const char* path, HandlerFunction handler, Access access) {
  router_.add(method, path, routes_.size());
  routes_.push_back({handler, access});
}

http::Response Api::error_page(const Error& error) {
  return error_response(error);
}

async::Task<void> Api::answer(http::Exchange& exchange) {
  auto match = router_.match(exchange.request().method, exchange.request().parsed.segments);
  bool found = match.kind == http::Router::Match::Kind::kFound;
  Call call{exchange, services_, TenantId(), std::move(match.parameters)};
  if (!found || routes_[match.handler].access == Access::kKey) {
    // Whoever has no key learns nothing about what exists.
    auto tenant = services_.keyring.tenant_of(presented_key(exchange));
    if (!tenant) {
      co_return co_await reply_error(call, make_error(Code::kUnauthenticated, "control.unauthenticated",
                                                      "a valid key is needed: Authorization: Bearer KEY"));
    }
    call.tenant = *tenant;
  }
  if (found) co_return co_await routes_[match.handler].handler(call);
  if (match.kind == http::Router::Match::Kind::kNotFound) {
    co_return co_await reply_error(
        call, make_error(Code::kNotFound, "http.no_such_route", "there is nothing at this path"));
  }
  auto response = error_response(
      make_error(Code::kInvalidArgument, "http.method_not_allowed", "this path takes: " + match.allowed));
  response.headers.set("Allow", match.allowed);
  (co_await exchange.respond(std::move(response))).ignore("the client has gone");
}

}  // namespace space::control::api
