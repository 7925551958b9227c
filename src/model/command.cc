// SPDX-License-Identifier: Apache-2.0
#include "model/command.h"

#include <algorithm>

namespace space::model {
namespace {

bool has_nul(std::string_view text) {
  return text.find('\0') != std::string_view::npos;
}

std::size_t total_bytes(const CommandRequest& request) {
  constexpr std::size_t kCostPerString = 16;  // offsets and padding in the message
  std::size_t total = request.cwd.size() + request.user.size();
  for (const auto& arg : request.argv) total += arg.size() + kCostPerString;
  for (const auto& [name, value] : request.env) total += name.size() + value.size() + 3 * kCostPerString;
  return total;
}

}  // namespace

Result<void> check_command(const CommandRequest& request) {
  if (request.argv.empty() || request.argv[0].empty()) {
    return field_error("argv", "model.bad_argv", "argv must name a command");
  }
  if (std::any_of(request.argv.begin(), request.argv.end(), has_nul)) {
    return field_error("argv", "model.bad_argv", "an argument can't contain a NUL byte");
  }
  for (const auto& [name, value] : request.env) {
    if (name.empty() || name.find('=') != std::string::npos || has_nul(name) || has_nul(value)) {
      return field_error("env", "model.bad_env",
                         "a variable's name is not empty and has no '='; neither part contains NUL");
    }
  }
  if (!request.cwd.empty() && !check_path(request.cwd).ok()) {
    return field_error("cwd", "model.bad_cwd", "cwd must be an absolute path");
  }
  if (request.user.size() > 64 || has_nul(request.user)) {
    return field_error("user", "model.bad_user", "user is a name or number of at most 64 bytes");
  }
  if (request.pty) {
    if (!check_pty_size(request.pty->rows, request.pty->cols).ok() || request.pty->term.size() > 64 ||
        has_nul(request.pty->term)) {
      return field_error("pty", "model.bad_pty", "rows and cols must be 1 to 65535, term at most 64 bytes");
    }
  }
  if (!request.command_id.empty()) SPACE_CHECK_OK(check_command_id(request.command_id));
  if (total_bytes(request) > kMaxCommandBytes) {
    return field_error(
        "argv", "model.command_too_large",
        "arguments and environment may have 48 KiB together; send larger input through stdin or a file");
  }
  return {};
}

Result<void> check_command_id(std::string_view id) {
  bool fine = !id.empty() && id.size() <= 64 && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
  if (fine) return {};
  return field_error("command_id", "model.bad_command_id",
                     "a command id has 1 to 64 characters of a-z, 0-9, '-' and '_'");
}

Result<void> check_path(std::string_view path, std::string_view field) {
  if (!path.empty() && path.front() == '/' && path.size() <= kMaxPathBytes && !has_nul(path)) return {};
  return field_error(std::string(field), "model.bad_path",
                     std::string(field) + " must be an absolute path of at most 4096 bytes without NUL");
}

Result<void> check_signal(std::uint64_t signal) {
  if (signal >= 1 && signal <= 64) return {};
  return field_error("signal", "model.bad_signal", "signal must be 1 to 64");
}

Result<void> check_pty_size(std::uint64_t rows, std::uint64_t cols) {
  if (rows < 1 || rows > 65535) return field_error("rows", "model.bad_pty", "rows must be 1 to 65535");
  if (cols < 1 || cols > 65535) return field_error("cols", "model.bad_pty", "cols must be 1 to 65535");
  return {};
}

Result<std::uint16_t> parse_port(std::string_view text) {
  unsigned value = 0;
  for (char c : text) {
    if (c < '0' || c > '9' || value > 65535) {
      value = 0;
      break;
    }
    value = value * 10 + static_cast<unsigned>(c - '0');
  }
  if (value < 1 || value > 65535) return field_error("port", "model.bad_port", "port must be 1 to 65535");
  return static_cast<std::uint16_t>(value);
}

Result<std::uint32_t> parse_mode(std::string_view text) {
  std::uint32_t mode = 0;
  bool fine = !text.empty() && text.size() <= 5;
  for (char c : text) {
    fine = fine && c >= '0' && c <= '7';
    mode = mode * 8 + static_cast<std::uint32_t>(c - '0');
  }
  if (!fine || mode > 07777)
    return field_error("mode", "model.bad_mode", "mode must be octal permission bits such as 0644");
  return mode;
}

std::string format_mode(std::uint32_t mode) {
  mode &= 07777;
  std::string text = "0000";
  for (int i = 3; i >= 0; --i, mode >>= 3)
    text[static_cast<std::size_t>(i)] = static_cast<char>('0' + (mode & 7));
  return text;
}

}  // namespace space::model
