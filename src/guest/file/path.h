// SPDX-License-Identifier: Apache-2.0
#pragma once
// Paths of file calls, and errors that name them.

#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace space::guest {

// Absolute, without NUL, at most 4095 bytes. Errors: guest.malformed_path with the field. Pure.
Result<void> check_path(std::string_view path, std::string_view field = "path");

// An errno of a file operation as a stable reason: guest.no_such_file, guest.not_a_directory,
// guest.is_a_directory, guest.exists, guest.not_empty, guest.disk_full, guest.permission_denied,
// guest.name_too_long, guest.read_only, guest.too_many_links, guest.busy, guest.cross_device,
// guest.file_too_large, guest.too_many_open_files; else guest.file.
Error file_error(int error_number, std::string_view verb, std::string_view path);

// "/a/b/c" -> "/a/b", "/c" -> "/". Pure.
std::string parent_of(std::string_view path);
// "/a/b/c/" -> "c"; "/" -> "". Pure.
std::string_view name_of(std::string_view path);
// Without trailing slashes, except for the root. Pure.
std::string without_trailing_slashes(std::string_view path);

}  // namespace space::guest
