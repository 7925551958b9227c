// SPDX-License-Identifier: Apache-2.0
#include "control/api/parse.h"

#include <algorithm>

#include "control/api/internal/json.h"

namespace space::control::api {
namespace {

json::value sorted(const json::value& value) {
  if (value.is_array()) {
    json::array out;
    for (const auto& item : value.get_array()) out.push_back(sorted(item));
    return out;
  }
  if (!value.is_object()) return value;
  std::vector<std::string_view> keys;
  for (const auto& field : value.get_object()) keys.emplace_back(field.key());
  std::sort(keys.begin(), keys.end());
  json::object out;
  for (auto key : keys) out.emplace(key, sorted(value.get_object().at(key)));
  return out;
}

Result<std::optional<model::PtySize>> parse_pty(Fields& fields) {
  SPACE_TRY(auto object, fields.object("pty"));
  if (!object) return std::optional<model::PtySize>();
  Fields pty(std::move(*object), "pty.");
  model::PtySize size;
  SPACE_TRY(auto rows, pty.number("rows"));
  SPACE_TRY(auto cols, pty.number("cols"));
  SPACE_TRY(auto term, pty.text("term"));
  SPACE_CHECK_OK(pty.done());
  size.rows = rows.value_or(size.rows);
  size.cols = cols.value_or(size.cols);
  size.term = term.value_or("");
  return std::optional(size);
}

}  // namespace

Result<std::string> canonical(std::string_view body) {
  SPACE_TRY(auto object, parse_object(body));
  return json::serialize(sorted(object));
}

Result<model::SessionRequest> parse_session_request(std::string_view body) {
  SPACE_TRY(auto object, parse_object(body));
  Fields fields(std::move(object));
  model::SessionRequest request;
  SPACE_TRY(request.name, fields.text("name"));
  SPACE_TRY(auto template_name, fields.text("template"));
  if (template_name) request.template_name = std::move(*template_name);
  SPACE_TRY(request.vcpus, fields.number("vcpus"));
  SPACE_TRY(request.memory_bytes, fields.number("memory_bytes"));
  SPACE_TRY(request.disk_bytes, fields.number("disk_bytes"));
  SPACE_TRY(auto ttl, fields.number("ttl_seconds"));
  if (ttl) request.ttl_seconds = *ttl;
  SPACE_TRY(auto labels, fields.object("labels"));
  if (labels) {
    for (const auto& label : *labels) {
      if (!label.value().is_string())
        return field_error("labels", "control.bad_field", "labels must be an object of strings");
      request.labels.emplace(label.key(), label.value().as_string());
    }
  }
  SPACE_CHECK_OK(fields.done());
  return request;
}

Result<std::uint64_t> parse_ttl(std::string_view body) {
  SPACE_TRY(auto object, parse_object(body));
  Fields fields(std::move(object));
  SPACE_TRY(auto ttl, fields.number("ttl_seconds"));
  SPACE_CHECK_OK(fields.done());
  if (!ttl) return field_error("ttl_seconds", "control.bad_field", "ttl_seconds must be given");
  SPACE_CHECK_OK(model::check_ttl(*ttl));
  return *ttl;
}

Result<std::string> parse_template_name(std::string_view body) {
  SPACE_TRY(auto object, parse_object(body));
  Fields fields(std::move(object));
  SPACE_TRY(auto name, fields.required_text("name"));
  SPACE_CHECK_OK(fields.done());
  SPACE_CHECK_OK(model::check_template_name(name, "name"));
  return name;
}

Result<model::CommandRequest> parse_command(std::string_view body) {
  SPACE_TRY(auto object, parse_object(body));
  Fields fields(std::move(object));
  model::CommandRequest request;
  SPACE_TRY(auto argv, fields.texts("argv"));
  if (argv) request.argv = std::move(*argv);
  SPACE_TRY(auto env, fields.object("env"));
  if (env) {
    for (const auto& variable : *env) {
      if (!variable.value().is_string())
        return field_error("env", "control.bad_field", "env must be an object of strings");
      request.env.emplace_back(variable.key(), variable.value().as_string());
    }
  }
  SPACE_TRY(auto cwd, fields.text("cwd"));
  SPACE_TRY(auto user, fields.text("user"));
  SPACE_TRY(request.pty, parse_pty(fields));
  SPACE_TRY(auto open_stdin, fields.flag("stdin"));
  SPACE_TRY(auto timeout, fields.number("timeout_ms"));
  SPACE_TRY(auto detached, fields.flag("detached"));
  SPACE_TRY(auto command_id, fields.text("command_id"));
  SPACE_CHECK_OK(fields.done());
  request.cwd = cwd.value_or("");
  request.user = user.value_or("");
  request.open_stdin = open_stdin.value_or(false);
  request.timeout_ms = timeout.value_or(0);
  request.detached = detached.value_or(false);
  if (command_id) {
    request.command_id = std::move(*command_id);
    SPACE_CHECK_OK(model::check_command_id(request.command_id));
  }
  SPACE_CHECK_OK(model::check_command(request));
  return request;
}

Result<std::uint32_t> parse_signal(std::string_view body) {
  SPACE_TRY(auto object, parse_object(body));
  Fields fields(std::move(object));
  SPACE_TRY(auto signal, fields.number("signal"));
  SPACE_CHECK_OK(fields.done());
  SPACE_CHECK_OK(model::check_signal(signal.value_or(0)));
  return static_cast<std::uint32_t>(*signal);
}

Result<MoveRequest> parse_move(std::string_view body) {
  SPACE_TRY(auto object, parse_object(body));
  Fields fields(std::move(object));
  MoveRequest request;
  SPACE_TRY(request.from, fields.required_text("from"));
  SPACE_TRY(request.to, fields.required_text("to"));
  SPACE_TRY(auto overwrite, fields.flag("overwrite"));
  SPACE_CHECK_OK(fields.done());
  request.overwrite = overwrite.value_or(false);
  SPACE_CHECK_OK(model::check_path(request.from, "from"));
  SPACE_CHECK_OK(model::check_path(request.to, "to"));
  return request;
}

Result<MkdirRequest> parse_mkdir(std::string_view body) {
  SPACE_TRY(auto object, parse_object(body));
  Fields fields(std::move(object));
  MkdirRequest request;
  SPACE_TRY(request.path, fields.required_text("path"));
  SPACE_TRY(auto mode, fields.text("mode"));
  SPACE_TRY(auto parents, fields.flag("parents"));
  SPACE_TRY(auto user, fields.text("user"));
  SPACE_CHECK_OK(fields.done());
  if (mode) {
    SPACE_TRY(request.mode, model::parse_mode(*mode));
  }
  request.parents = parents.value_or(false);
  request.user = user.value_or("");
  SPACE_CHECK_OK(model::check_path(request.path));
  return request;
}

Result<ClientFrame> parse_client_frame(std::string_view text) {
  SPACE_TRY(auto object, parse_object(text));
  Fields fields(std::move(object));
  SPACE_TRY(auto type, fields.required_text("type"));
  ClientFrame frame;
  if (type == "stdin_end") {
    frame.kind = ClientFrame::Kind::kStdinEnd;
  } else if (type == "end") {
    frame.kind = ClientFrame::Kind::kEnd;
  } else if (type == "resize") {
    frame.kind = ClientFrame::Kind::kResize;
    SPACE_TRY(auto rows, fields.number("rows"));
    SPACE_TRY(auto cols, fields.number("cols"));
    SPACE_CHECK_OK(model::check_pty_size(rows.value_or(0), cols.value_or(0)));
    frame.rows = static_cast<std::uint16_t>(*rows);
    frame.cols = static_cast<std::uint16_t>(*cols);
  } else if (type == "signal") {
    frame.kind = ClientFrame::Kind::kSignal;
    SPACE_TRY(auto signal, fields.number("signal"));
    SPACE_CHECK_OK(model::check_signal(signal.value_or(0)));
    frame.signal = static_cast<std::uint32_t>(*signal);
  } else {
    return field_error("type", "control.bad_field", "type must be stdin_end, end, resize or signal");
  }
  SPACE_CHECK_OK(fields.done());
  return frame;
}

}  // namespace space::control::api
