// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON for this folder's .cc files. What goes out is always valid UTF-8; what comes in is taken apart field
// by field, and a field that nobody asked for is an error.

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/api/utf8.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace space::control::api {

namespace json = boost::json;

// Text from a guest or a node. Invalid sequences become U+FFFD.
inline json::string clean(std::string_view text) {
  std::string valid = to_valid_utf8(text);
  return json::string(valid);
}
inline json::value time_value(WallTime time) {
  return json::string(to_rfc3339(time));
}
inline json::value maybe_time_value(const std::optional<WallTime>& time) {
  return time ? time_value(*time) : json::value(nullptr);
}

// Errors: control.malformed_json, control.not_an_object. An empty text is an empty object.
Result<json::object> parse_object(std::string_view text);

// Takes the fields of an object; what is left at done() is an error. null counts as absent.
// Errors of all: control.bad_field with the field's name.
class Fields {
 public:
  // `prefix`: the name of the object within the request ("pty."), for errors.
  explicit Fields(json::object object, std::string prefix = "")
      : object_(std::move(object)), prefix_(std::move(prefix)) {}

  Result<std::optional<std::string>> text(std::string_view name);
  Result<std::optional<std::uint64_t>> number(std::string_view name);
  Result<std::optional<bool>> flag(std::string_view name);
  Result<std::optional<json::object>> object(std::string_view name);
  Result<std::optional<std::vector<std::string>>> texts(std::string_view name);
  Result<std::string> required_text(std::string_view name);
  // Errors: control.unknown_field.
  Result<void> done() const;

 private:
  std::optional<json::value> take(std::string_view name);
  Error bad(std::string_view name, const char* what) const;

  json::object object_;
  std::string prefix_;
};

}  // namespace space::control::api
