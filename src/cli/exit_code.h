// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the process's exit code says. Pure.
//
// 0 success; 1 the server or the session said no; 2 the command line is wrong. `exec`, `shell` and `attach`
// pass the remote command's own code through, so what isn't the command's gets codes of its own, those that
// shells and container tools use: 124 time is up, 125 it isn't known how the command ended or it never
// started, 126 not executable, 127 not found, 128+n ended by signal n.

#include <string_view>

#include "lib/base/error.h"

namespace space::cli {

inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;
inline constexpr int kTimedOut = 124;
inline constexpr int kUnknown = 125;
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;

struct CommandEnd {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;
  bool timed_out = false;
  bool out_of_memory = false;
};

constexpr int exit_code_of(const CommandEnd& end) {
  if (end.timed_out) return kTimedOut;
  if (end.signal > 0 && end.signal <= 64) return 128 + end.signal;
  if (end.exit_code >= 0 && end.exit_code <= 255) return end.exit_code;
  return kUnknown;
}

// For an error in place of an end.
inline int exit_code_of_failed_command(const Error& error) {
  if (error.reason == "guest.command_not_found") return kNotFound;
  if (error.reason == "guest.command_not_executable") return kNotExecutable;
  return kUnknown;
}

inline int exit_code_of(const Error& error) {
  return error.reason == "cli.usage" ? kUsage : kFailed;
}

}  // namespace space::cli
