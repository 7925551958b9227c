// SPDX-License-Identifier: Apache-2.0
#include "control/api/handler.h"

#include <algorithm>
#include <charconv>

#include "control/api/http_status.h"
#include "control/meta/sessions.h"
#include "model/command.h"

namespace space::control::api {
namespace {

Error bad_parameter(std::string_view name, const std::string& what) {
  return field_error(std::string(name), "control.bad_parameter",
                     "the parameter " + std::string(name) + " must be " + what);
}

bool parse_number(std::string_view text, auto& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

http::Response json_response(unsigned status, std::string body) {
  http::Response response;
  response.status = status;
  response.headers.set("Content-Type", "application/json");
  response.headers.set("Cache-Control", "no-store");
  response.headers.set("X-Content-Type-Options", "nosniff");
  response.body = std::move(body);
  return response;
}

http::Response error_response(const Error& error, const ErrorSubject& subject) {
  auto response = json_response(http_status(error), error_json(error, subject));
  if (response.status == 401) response.headers.set("WWW-Authenticate", "Bearer");
  if (response.status == 503) response.headers.set("Retry-After", "1");
  return response;
}

async::Task<void> reply(Call& call, unsigned status, std::string json_body, std::string operation) {
  auto response = json_response(status, std::move(json_body));
  if (!operation.empty()) response.headers.set("Space-Operation", operation);
  (co_await call.exchange.respond(std::move(response))).ignore("the client has gone");
}

async::Task<void> reply_error(Call& call, Error error, ErrorSubject subject) {
  // After a broken body there may be nobody to tell; after a begun answer there is no way to.
  if (call.exchange.begun()) co_return;
  auto response = error_response(error, subject);
  if (!subject.operation.empty()) response.headers.set("Space-Operation", subject.operation);
  (co_await call.exchange.respond(std::move(response))).ignore("the client has gone");
}

async::Task<void> reply_empty(Call& call) {
  http::Response response;
  response.status = 204;
  (co_await call.exchange.respond(std::move(response))).ignore("the client has gone");
}

async::Task<Result<std::string>> read_json(Call& call) {
  if (!call.exchange.has_body()) co_return std::string();
  std::string_view type = call.exchange.request().headers.get("Content-Type");
  type = type.substr(0, type.find(';'));
  while (!type.empty() && type.back() == ' ') type.remove_suffix(1);
  if (!http::equals_ignoring_case(type, "application/json")) {
    co_return make_error(Code::kInvalidArgument, "http.wrong_content_type",
                         "the body must be application/json");
  }
  co_return co_await call.exchange.read_all(kMaxJsonBytes);
}

std::string text_parameter(const Call& call, std::string_view name) {
  const std::string* value = call.exchange.request().parsed.parameter(name);
  return value == nullptr ? std::string() : *value;
}

Result<bool> flag_parameter(const Call& call, std::string_view name, bool otherwise) {
  const std::string* value = call.exchange.request().parsed.parameter(name);
  if (value == nullptr) return otherwise;
  if (*value == "true") return true;
  if (*value == "false") return false;
  return bad_parameter(name, "true or false");
}

Result<std::optional<std::uint64_t>> number_parameter(const Call& call, std::string_view name) {
  const std::string* value = call.exchange.request().parsed.parameter(name);
  if (value == nullptr) return std::optional<std::uint64_t>();
  std::uint64_t number = 0;
  if (!parse_number(*value, number)) return bad_parameter(name, "a whole number");
  return std::optional(number);
}

Result<std::string> path_parameter(const Call& call) {
  const std::string* value = call.exchange.request().parsed.parameter("path");
  if (value == nullptr) return bad_parameter("path", "given");
  SPACE_CHECK_OK(model::check_path(*value));
  return *value;
}

Result<std::optional<operations::IdempotencyKey>> idempotency_key(const Call& call,
                                                                  std::string_view canonical_body) {
  const auto& request = call.exchange.request();
  const std::string* key = request.headers.find("Idempotency-Key");
  if (key == nullptr) return std::optional<operations::IdempotencyKey>();
  bool printable = std::all_of(key->begin(), key->end(), [](char c) { return c >= 0x20 && c < 0x7f; });
  if (key->empty() || key->size() > 128 || !printable) {
    return field_error("Idempotency-Key", "control.bad_idempotency_key",
                       "an Idempotency-Key has 1 to 128 printable characters");
  }
  // Separators that occur in none of the parts, or lengths before them, keep different requests apart.
  std::string what = request.method;
  for (const auto& segment : request.parsed.segments)
    what += "/" + std::to_string(segment.size()) + ":" + segment;
  for (const auto& [name, value] : request.parsed.query) {
    if (name != "wait")
      what +=
          "?" + std::to_string(name.size()) + ":" + name + "=" + std::to_string(value.size()) + ":" + value;
  }
  what.append("\n").append(canonical_body);
  return std::optional(operations::IdempotencyKey{*key, sha256_hex(what)});
}

std::string page_token(std::int64_t created_us, const std::string& id) {
  return std::to_string(created_us) + "-" + id;
}

Result<Page> page_parameters(const Call& call) {
  Page page;
  SPACE_TRY(auto size, number_parameter(call, "page_size"));
  if (size) {
    if (*size < 1 || *size > 1000) return bad_parameter("page_size", "1 to 1000");
    page.size = static_cast<std::size_t>(*size);
  }
  std::string token = text_parameter(call, "page_token");
  if (token.empty()) return page;
  auto dash = token.find('-');
  meta::Cursor cursor;
  bool fine = dash != std::string::npos &&
              parse_number(std::string_view(token).substr(0, dash), cursor.created_us) &&
              is_well_formed_id(std::string_view(token).substr(dash + 1));
  if (!fine) return bad_parameter("page_token", "one that a listing gave");
  cursor.id = token.substr(dash + 1);
  page.after = std::move(cursor);
  return page;
}

async::Task<Result<meta::SessionRow>> session_of(const Call& call) {
  TenantId tenant = call.tenant;
  std::string id_or_name = call.path["session"];
  return call.services.store.read([tenant, id_or_name](meta::Database& database) {
    return meta::get_session(database, tenant, id_or_name);
  });
}

async::Task<Result<meta::SessionRow>> running_session(const Call& call) {
  SPACE_CO_TRY(auto row, co_await session_of(call));
  SPACE_CO_CHECK_OK(model::check_usable(row.state));
  co_return row;
}

}  // namespace space::control::api
