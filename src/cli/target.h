// SPDX-License-Identifier: Apache-2.0
#pragma once
// What people write on the command line, taken apart: places of `cp`, ports, signals, variables. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/result.h"

namespace space::cli {

// One side of `space cp`. "demo:/etc/hosts" is in a session, "./a:b", "/x" and "-" are local.
struct Place {
  std::optional<std::string> session;
  std::string path;  // absolute in a session
  [[nodiscard]] bool stream() const { return !session && path == "-"; }
  bool operator==(const Place&) const = default;
};
// Errors: cli.usage when the path in a session isn't absolute or is empty, or has a component "..".
Result<Place> parse_place(std::string_view text);

// "[LOCAL:]REMOTE"; LOCAL 0 or nothing in front of the colon means any free port, no colon the same number.
struct PortPair {
  std::uint16_t local = 0;
  std::uint16_t remote = 0;
  bool operator==(const PortPair&) const = default;
};
Result<PortPair> parse_port_pair(std::string_view text);

// "15", "TERM", "SIGTERM", "term": 1 to 64.
Result<int> parse_signal(std::string_view text);

// "NAME=VALUE"; "NAME" alone takes the value from `lookup`, and is an error when that has none.
Result<std::pair<std::string, std::string>> parse_variable(std::string_view text,
                                                           const char* (*lookup)(const char*));

// Is `name` fit to be created inside a directory of ours: not empty, ".", "..", no slash, no NUL, at most 255
// bytes?
bool is_plain_name(std::string_view name);

// The entry's name in a listing of `directory`, where the answer's path is relative to it or begins with it.
// Anything that isn't one plain name is an error: the guest wrote it. Errors: cli.hostile_name.
Result<std::string> name_in_listing(std::string_view directory, std::string_view path);

// The last component, "" for "/".
std::string base_name(std::string_view path);
std::string join(std::string_view directory, std::string_view name);

}  // namespace space::cli
