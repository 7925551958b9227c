// SPDX-License-Identifier: Apache-2.0
#pragma once
// Request bodies and client frames as values. Pure. Posture: tenant-input.
// Errors of all: control.malformed_json, control.bad_field, control.unknown_field, and the model's.

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "model/command.h"
#include "model/session_request.h"

namespace space::control::api {

// Not checked yet by the model, which needs the template.
Result<model::SessionRequest> parse_session_request(std::string_view body);
Result<std::uint64_t> parse_ttl(std::string_view body);
Result<std::string> parse_template_name(std::string_view body);
// Checked.
Result<model::CommandRequest> parse_command(std::string_view body);
Result<std::uint32_t> parse_signal(std::string_view body);

struct MoveRequest {
  std::string from;
  std::string to;
  bool overwrite = false;
};
Result<MoveRequest> parse_move(std::string_view body);

struct MkdirRequest {
  std::string path;
  std::uint32_t mode = 0755;
  bool parents = false;
  std::string user;
};
Result<MkdirRequest> parse_mkdir(std::string_view body);

// A text frame of a client: what it wants of a running command or connection.
struct ClientFrame {
  enum class Kind : std::uint8_t { kStdinEnd, kResize, kSignal, kEnd };
  Kind kind = Kind::kStdinEnd;
  std::uint16_t rows = 0;
  std::uint16_t cols = 0;
  std::uint32_t signal = 0;
};
Result<ClientFrame> parse_client_frame(std::string_view text);

// The same request gives the same text, whatever the order of fields and the white space.
// Errors: control.malformed_json.
Result<std::string> canonical(std::string_view body);

}  // namespace space::control::api
