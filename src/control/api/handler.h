// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every handler of the API sees and the little that all of them do: read JSON, read parameters, answer.
// Handlers only translate between HTTP and the use cases. Posture: tenant-input.

#include <optional>
#include <string>
#include <string_view>

#include "control/api/render.h"
#include "control/api/services.h"
#include "lib/http/exchange.h"
#include "lib/http/router.h"

namespace space::control::api {

inline constexpr std::size_t kMaxJsonBytes = 1u << 20;

// One request, authenticated. Lives as long as its handler runs.
struct Call {
  http::Exchange& exchange;
  const Services& services;
  TenantId tenant;
  http::PathParameters path;
};

using HandlerFunction = async::Task<void> (*)(Call&);

http::Response json_response(unsigned status, std::string body);
http::Response error_response(const Error& error, const ErrorSubject& subject = {});

// A client that has gone is no error for anybody.
async::Task<void> reply(Call& call, unsigned status, std::string json_body, std::string operation = {});
async::Task<void> reply_error(Call& call, Error error, ErrorSubject subject = {});
async::Task<void> reply_empty(Call& call);

// The body of a request that takes JSON; empty when there is none.
// Errors: http.wrong_content_type, http.body_too_large, those of Exchange::read_body.
async::Task<Result<std::string>> read_json(Call& call);

// "true" or "false". Errors: control.bad_parameter with its name.
Result<bool> flag_parameter(const Call& call, std::string_view name, bool otherwise);
Result<std::optional<std::uint64_t>> number_parameter(const Call& call, std::string_view name);
// The absolute path in the query. Errors: control.bad_parameter, model.bad_path.
Result<std::string> path_parameter(const Call& call);
std::string text_parameter(const Call& call, std::string_view name);

// The Idempotency-Key header, bound to what this request asks: method, path, the query without `wait`, and
// the body. Errors: control.bad_idempotency_key.
Result<std::optional<operations::IdempotencyKey>> idempotency_key(const Call& call,
                                                                  std::string_view canonical_body);

struct Page {
  std::size_t size = 100;
  std::optional<meta::Cursor> after;
};
// Errors: control.bad_parameter.
Result<Page> page_parameters(const Call& call);
std::string page_token(std::int64_t created_us, const std::string& id);

// The session that the path names. Errors: control.no_such_session.
async::Task<Result<meta::SessionRow>> session_of(const Call& call);
// The same, and it must be running. Errors: control.session_not_running.
async::Task<Result<meta::SessionRow>> running_session(const Call& call);

}  // namespace space::control::api
