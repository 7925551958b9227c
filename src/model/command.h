// SPDX-License-Identifier: Apache-2.0
#pragma once
// What may be asked of a running sandbox: command lines, paths, signals, ports. Pure. Posture: tenant-input.
// These checks give clients clear errors; the sandbox checks again for itself. Every error is
// invalid_argument and names its field.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"

namespace space::model {

// All strings of a command together, so that the request fits in one message to the guest.
inline constexpr std::size_t kMaxCommandBytes = 48u << 10;
inline constexpr std::size_t kMaxPathBytes = 4096;

struct PtySize {
  std::uint64_t rows = 24;
  std::uint64_t cols = 80;
  std::string term;
};

struct CommandRequest {
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> env;
  std::string cwd;
  std::string user;
  std::optional<PtySize> pty;
  bool open_stdin = false;
  std::uint64_t timeout_ms = 0;  // 0: none
  bool detached = false;
  std::string command_id;  // empty: one is chosen
};

// Errors: model.bad_argv, model.bad_env, model.bad_cwd, model.bad_user, model.bad_pty, model.bad_command_id,
// model.command_too_large.
Result<void> check_command(const CommandRequest& request);
// 1 to 64 characters of a-z, 0-9, '-' and '_'. Errors: model.bad_command_id (field "command_id").
Result<void> check_command_id(std::string_view id);
// Absolute, without NUL, at most kMaxPathBytes; other bytes are the guest's business. Errors: model.bad_path.
Result<void> check_path(std::string_view path, std::string_view field = "path");
// 1 to 64. Errors: model.bad_signal (field "signal").
Result<void> check_signal(std::uint64_t signal);
// 1 to 65535 each. Errors: model.bad_pty (field "rows" or "cols").
Result<void> check_pty_size(std::uint64_t rows, std::uint64_t cols);
// Decimal, 1 to 65535. Errors: model.bad_port (field "port").
Result<std::uint16_t> parse_port(std::string_view text);
// Octal permission bits, "0644" or "644", at most 07777. Errors: model.bad_mode (field "mode").
Result<std::uint32_t> parse_mode(std::string_view text);
// "0644". Only the permission bits of `mode` are shown.
std::string format_mode(std::uint32_t mode);

}  // namespace space::model
