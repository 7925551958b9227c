// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a command sees: environment, and which files its name may mean. Pure.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "guest/command/users.h"

namespace space::guest {

using EnvVars = std::vector<std::pair<std::string, std::string>>;

// The defaults (PATH, HOME, USER, LOGNAME, SHELL, LANG, and TERM when `term` isn't empty) with `extra` on
// top, as NAME=value. A later entry of the same name wins.
std::vector<std::string> make_environment(const User& user, std::string_view term, const EnvVars& extra);

// Errors: guest.malformed_environment for a name that is empty or holds '=' or NUL, or a value with NUL.
Result<void> check_environment(const EnvVars& extra);

// The value of `name` in what make_environment() made; empty when absent.
std::string_view environment_value(const std::vector<std::string>& environment, std::string_view name);

// The files to try for `program`, in order: itself when it has a slash, else one in each directory of `path`.
std::vector<std::string> program_candidates(std::string_view program, std::string_view path);

}  // namespace space::guest
