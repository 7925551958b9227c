// SPDX-License-Identifier: Apache-2.0
#include "cli/api.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

namespace space::cli {
namespace json = boost::json;
using async::Task;
using http::client::Request;
using http::client::Response;

namespace {

constexpr int kAttempts = 3;

Error bad_answer(const std::string& what) {
  return make_error(Code::kInternal, "cli.bad_answer",
                    "the server's answer is not what this client understands: " + what);
}

}  // namespace

Request Api::request(std::string method, std::string target) {
  Request request;
  request.method = std::move(method);
  request.target = "/v1" + std::move(target);
  return request;
}

Result<json::value> Api::parse(std::string_view text) {
  json::error_code error;
  json::parse_options options;
  options.max_depth = 32;
  json::value value = json::parse({text.data(), text.size()}, error, {}, options);
  if (error) return bad_answer("malformed JSON");
  return value;
}

Error Api::error_from(const json::value& error) {
  Error out;
  out.code = code_from_string(text_of(error, "code"));
  out.reason = text_of(error, "reason");
  out.message = text_of(error, "message");
  if (const auto* details = member(error, "details")) out.field = text_of(*details, "field");
  if (out.message.empty()) out.message = "the server gave no explanation";
  return out;
}

Error Api::error_from(const Response& response) {
  auto body = parse(response.body);
  if (body.ok()) {
    if (const auto* error = member(*body, "error")) return error_from(*error);
  }
  return bad_answer("status " + std::to_string(response.status) +
                    " without an error object; is it a SPACE server?");
}

Task<Result<json::value>> Api::exchange(Request request) {
  bool repeatable = request.method == "GET";
  for (const auto& header : request.headers) repeatable = repeatable || header.name == "Idempotency-Key";
  for (int attempt = 1;; ++attempt) {
    auto response = co_await client_.send(request);
    if (!response.ok() && response.error().reason == "http.broken_stream" && repeatable &&
        attempt < kAttempts) {
      co_await async::sleep_for(std::chrono::milliseconds(200 * attempt));
      continue;
    }
    if (!response.ok()) co_return std::move(response).error();
    if (!response->ok()) co_return error_from(*response);
    if (response->body.empty()) co_return json::value(nullptr);
    co_return parse(response->body);
  }
}

Task<Result<json::value>> Api::get(std::string target) {
  return exchange(request("GET", std::move(target)));
}

Task<Result<json::value>> Api::change(std::string method, std::string target,
                                      std::optional<json::value> body) {
  Request asked = request(std::move(method), std::move(target));
  asked.headers.push_back({"Idempotency-Key", random_.id_text()});
  if (body) {
    asked.headers.push_back({"Content-Type", "application/json"});
    asked.body = json::serialize(*body);
  }
  return exchange(std::move(asked));
}

Task<Result<json::array>> Api::list(std::string target) {
  json::array all;
  std::string glue = target.find('?') == std::string::npos ? "?" : "&";
  std::string page = target + glue + "page_size=1000";
  for (;;) {
    SPACE_CO_TRY(json::value answer, co_await get(page));
    const auto* items = member(answer, "items");
    if (items == nullptr || !items->is_array()) co_return bad_answer("a list without items");
    for (const auto& item : items->get_array()) all.push_back(item);
    std::string next = text_of(answer, "next_page_token");
    if (next.empty()) co_return std::move(all);
    page = target + glue + "page_size=1000&page_token=" + http::client::percent_encode(next);
  }
}

std::string session_target(const std::string& session) {
  return "/sessions/" + http::client::percent_encode(session);
}

const json::value* member(const json::value& object, std::string_view name) {
  const auto* fields = object.if_object();
  if (fields == nullptr) return nullptr;
  const auto* found = fields->if_contains({name.data(), name.size()});
  return found == nullptr || found->is_null() ? nullptr : found;
}

std::string text_of(const json::value& object, std::string_view name) {
  const auto* found = member(object, name);
  const auto* text = found == nullptr ? nullptr : found->if_string();
  return text == nullptr ? std::string() : std::string(text->begin(), text->end());
}

std::int64_t number_of(const json::value& object, std::string_view name, std::int64_t otherwise) {
  const auto* found = member(object, name);
  if (found == nullptr) return otherwise;
  if (const auto* value = found->if_int64()) return *value;
  if (const auto* value = found->if_uint64())
    return *value <= INT64_MAX ? static_cast<std::int64_t>(*value) : INT64_MAX;
  return otherwise;
}

bool flag_of(const json::value& object, std::string_view name) {
  const auto* found = member(object, name);
  const auto* value = found == nullptr ? nullptr : found->if_bool();
  return value != nullptr && *value;
}

}  // namespace space::cli
