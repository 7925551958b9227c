// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lines for the console. Few: under emulation a serial port is slow. What comes from the guest is escaped.

#include <string_view>

#include "lib/base/error.h"

namespace space::guest {

// "spaced: what: text\n" on standard error, control characters escaped, at most 400 bytes.
void log_line(std::string_view what, std::string_view text);
void log_error(std::string_view what, const Error& error);

}  // namespace space::guest
