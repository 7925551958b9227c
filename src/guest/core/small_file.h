// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small kernel files (/proc, /sys, cgroups): read or written in one go, relative to a directory or not.

#include <fcntl.h>

#include <string>
#include <string_view>

namespace space::guest {

// At most `max` bytes of `path`; empty when it can't be read.
std::string read_small(const char* path, std::size_t max = 64u << 10, int directory = AT_FDCWD);
// Writes `text` with one write(2), as kernel files want it. False, with errno, when that fails.
bool write_small(const char* path, std::string_view text, int directory = AT_FDCWD);
// The number that follows `key` and blanks at the start of a line, as in /proc/meminfo; 0 when there is none.
unsigned long long number_after(std::string_view text, std::string_view key);

}  // namespace space::guest
