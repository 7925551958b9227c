// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text from a guest made fit for people and programs. Pure. Posture: hostile-guest.

#include <cstddef>
#include <string>
#include <string_view>

namespace space::link {

// `text` with every byte that is no valid UTF-8 (overlong forms and surrogates included) replaced by U+FFFD.
std::string repair_utf8(std::string_view text);

// One line for a log or a terminal: escaped as by space::escape(), at most `max` bytes in all.
std::string one_line(std::string_view text, std::size_t max);

// Is every byte printable ASCII (0x20..0x7e)?
bool is_printable(std::string_view text);

}  // namespace space::link
