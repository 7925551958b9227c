// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bytes as valid UTF-8. Pure. Posture: hostile-guest.

#include <string>
#include <string_view>

namespace space::control::api {

// Every maximal invalid part becomes one U+FFFD; valid text comes back as it is.
std::string to_valid_utf8(std::string_view text);

}  // namespace space::control::api
