// SPDX-License-Identifier: Apache-2.0
#include "control/api/internal/json.h"

namespace space::control::api {

Result<json::object> parse_object(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return json::object();
  json::error_code error;
  auto value = json::parse(text, error);
  if (error) {
    return make_error(Code::kInvalidArgument, "control.malformed_json",
                      "the body is not valid JSON: " + error.message());
  }
  if (!value.is_object())
    return make_error(Code::kInvalidArgument, "control.malformed_json", "the body must be a JSON object");
  return std::move(value.as_object());
}

std::optional<json::value> Fields::take(std::string_view name) {
  auto found = object_.find(name);
  if (found == object_.end()) return std::nullopt;
  json::value value = std::move(found->value());
  object_.erase(found);
  if (value.is_null()) return std::nullopt;
  return value;
}

Error Fields::bad(std::string_view name, const char* what) const {
  std::string field = prefix_ + std::string(name);
  std::string message = field + " must be " + what;
  return field_error(std::move(field), "control.bad_field", std::move(message));
}

Result<std::optional<std::string>> Fields::text(std::string_view name) {
  auto value = take(name);
  if (!value) return std::optional<std::string>();
  if (!value->is_string()) return bad(name, "a string");
  return std::optional(std::string(value->as_string()));
}

Result<std::optional<std::uint64_t>> Fields::number(std::string_view name) {
  auto value = take(name);
  if (!value) return std::optional<std::uint64_t>();
  if (value->is_uint64()) return std::optional(value->as_uint64());
  if (value->is_int64() && value->as_int64() >= 0)
    return std::optional(static_cast<std::uint64_t>(value->as_int64()));
  return bad(name, "a whole number that is not negative");
}

Result<std::optional<bool>> Fields::flag(std::string_view name) {
  auto value = take(name);
  if (!value) return std::optional<bool>();
  if (!value->is_bool()) return bad(name, "true or false");
  return std::optional(value->as_bool());
}

Result<std::optional<json::object>> Fields::object(std::string_view name) {
  auto value = take(name);
  if (!value) return std::optional<json::object>();
  if (!value->is_object()) return bad(name, "an object");
  return std::optional(std::move(value->as_object()));
}

Result<std::optional<std::vector<std::string>>> Fields::texts(std::string_view name) {
  auto value = take(name);
  if (!value) return std::optional<std::vector<std::string>>();
  if (!value->is_array()) return bad(name, "an array of strings");
  std::vector<std::string> all;
  for (const auto& item : value->as_array()) {
    if (!item.is_string()) return bad(name, "an array of strings");
    all.emplace_back(item.as_string());
  }
  return std::optional(std::move(all));
}

Result<std::string> Fields::required_text(std::string_view name) {
  SPACE_TRY(auto value, text(name));
  if (!value) return bad(name, "given");
  return std::move(*value);
}

Result<void> Fields::done() const {
  if (object_.empty()) return {};
  std::string name = prefix_ + std::string(object_.begin()->key());
  std::string message = "there is no field " + name;
  return field_error(std::move(name), "control.unknown_field", std::move(message));
}

}  // namespace space::control::api
