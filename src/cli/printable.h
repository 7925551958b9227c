// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text from a guest or a server made harmless for a terminal. Pure.

#include <string>
#include <string_view>

namespace space::cli {

enum class Lines : unsigned char {
  kOne,   // for a cell or a message: line ends are escaped too
  kMany,  // for logs: \n and \t stay
};

// Valid UTF-8 that a terminal only draws stays; everything that could steer it (C0 and C1 controls, ESC,
// DEL), reorder the line (bidirectional overrides) or isn't UTF-8 becomes \xNN or \u{N}.
std::string printable(std::string_view text, Lines lines = Lines::kOne);

// How many bytes at the end of `text` are the beginning of a sequence whose rest may still come (0 to 3). For
// text that arrives in pieces: keep them back and put them in front of the next piece.
std::size_t incomplete_tail(std::string_view text);

// Is all of it UTF-8? JSON can carry nothing else.
bool is_utf8(std::string_view text);

// Columns that printable text takes, near enough: one for each code point.
std::size_t columns(std::string_view text);

}  // namespace space::cli
