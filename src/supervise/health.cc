// SPDX-License-Identifier: Apache-2.0
#include "supervise/health.h"

#include <boost/asio/this_coro.hpp>
#include <boost/json/parse.hpp>

#include "lib/async/deadline.h"
#include "lib/http/client/client.h"

namespace space::supervise {
namespace json = boost::json;
using async::Task;

namespace {

constexpr std::chrono::seconds kLimit{5};

// The JSON object at `target`; null when there is none.
Task<json::value> fetch(std::string url, std::string target, std::string key) {
  auto endpoint = http::client::parse_url(url);
  if (!endpoint.ok()) co_return nullptr;
  http::client::Options options;
  options.connect_timeout = kLimit;
  if (!key.empty()) options.headers.push_back({"Authorization", "Bearer " + key});
  http::client::Client client(co_await boost::asio::this_coro::executor, *endpoint, options);
  http::client::Request request;
  request.target = target;
  auto response =
      co_await async::with_deadline(client.send(std::move(request)), kLimit, "supervise.health", "no answer");
  if (!response.ok() || response->status != 200) co_return nullptr;
  json::error_code error;
  json::value value = json::parse(response->body, error);
  if (error || !value.is_object()) co_return nullptr;
  co_return value;
}

bool flag(const json::value& value, const char* name) {
  const auto* found = value.get_object().if_contains(name);
  return found != nullptr && found->is_bool() && found->get_bool();
}

std::vector<std::string> names(const json::object& object, const char* name) {
  std::vector<std::string> out;
  const auto* list = object.if_contains(name);
  if (list == nullptr || !list->is_array()) return out;
  for (const auto& item : list->get_array()) {
    if (item.is_string()) out.emplace_back(item.get_string());
  }
  return out;
}

}  // namespace

Task<Health> ask_health(std::string url) {
  json::value answer = co_await fetch(std::move(url), "/v1/health", "");
  Health health;
  if (answer.is_null()) co_return health;
  health.serving = true;
  health.node = flag(answer, "node");
  health.link = flag(answer, "link");
  co_return health;
}

Task<Recovery> ask_recovery(std::string url, std::string key) {
  json::value answer = co_await fetch(std::move(url), "/v1/node", std::move(key));
  Recovery recovery;
  if (answer.is_null()) co_return recovery;
  const auto* found = answer.get_object().if_contains("recovery");
  if (found == nullptr || !found->is_object()) co_return recovery;
  recovery.known = true;
  recovery.adopted = names(found->get_object(), "adopted");
  recovery.destroyed = names(found->get_object(), "destroyed");
  co_return recovery;
}

}  // namespace space::supervise
