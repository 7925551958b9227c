// SPDX-License-Identifier: Apache-2.0
#pragma once
// The REST API as JSON values. Targets are relative to /v1: "/sessions?state=running".
//
// Answers other than 2xx come back as the Error that the server describes (code, reason, message, field).
// Calls that change something carry an idempotency key, so that one whose connection broke is repeated
// without doing it twice. Errors: those of http::client::Client, those of the server, cli.bad_answer for what
// isn't the API's JSON. Resource type; one loop; one call at a time.

#include <boost/json/value.hpp>
#include <optional>
#include <string>

#include "lib/async/task.h"
#include "lib/base/result.h"
#include "lib/http/client/client.h"
#include "lib/os/random.h"

namespace space::cli {

class Api {
 public:
  Api(http::client::Client& client, os::Random& random) : client_(client), random_(random) {}

  async::Task<Result<boost::json::value>> get(std::string target);
  // `body` may be absent. An answer without a body is null.
  async::Task<Result<boost::json::value>> change(std::string method, std::string target,
                                                 std::optional<boost::json::value> body);
  // The items of every page. `target` may have a query.
  async::Task<Result<boost::json::array>> list(std::string target);

  [[nodiscard]] http::client::Client& client() { return client_; }

  static http::client::Request request(std::string method, std::string target);
  // The error in a response that isn't 2xx.
  static Error error_from(const http::client::Response& response);
  // The error object of an answer or of a frame of a stream.
  static Error error_from(const boost::json::value& error);
  static Result<boost::json::value> parse(std::string_view text);

 private:
  async::Task<Result<boost::json::value>> exchange(http::client::Request request);
  http::client::Client& client_;
  os::Random& random_;
};

// "/sessions/ID" with the name or id encoded.
std::string session_target(const std::string& session);

// Members of a JSON object, with a default for what is absent or of another type.
std::string text_of(const boost::json::value& object, std::string_view name);
std::int64_t number_of(const boost::json::value& object, std::string_view name, std::int64_t otherwise = 0);
bool flag_of(const boost::json::value& object, std::string_view name);
// nullptr when it is absent or null.
const boost::json::value* member(const boost::json::value& object, std::string_view name);

}  // namespace space::cli
