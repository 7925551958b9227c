// SPDX-License-Identifier: Apache-2.0
#include "guest/command/users.h"

#include <charconv>
#include <optional>

#include "guest/core/small_file.h"
#include "lib/base/bytes.h"

namespace space::guest {
namespace {

constexpr std::size_t kMaxFileBytes = 1u << 20;

std::optional<unsigned> number(std::string_view text) {
  unsigned value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // 4294967295 means "unchanged" to the kernel and is no user.
  if (error != std::errc() || end != text.data() + text.size() || value == 0xffffffffU) return std::nullopt;
  return value;
}

// Cuts the part before `separator` off `text`.
std::string_view next(std::string_view& text, char separator) {
  std::size_t at = text.find(separator);
  std::string_view part = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return part;
}

void add_groups(User& user, std::string_view group) {
  while (!group.empty() && user.groups.size() < kMaxGroups) {
    std::string_view line = next(group, '\n');
    next(line, ':');
    next(line, ':');
    auto gid = number(next(line, ':'));
    if (!gid || *gid == user.gid) continue;
    while (!line.empty()) {
      if (next(line, ',') != user.name) continue;
      user.groups.push_back(*gid);
      break;
    }
  }
}

}  // namespace

Result<User> find_user(std::string_view wanted, std::string_view passwd, std::string_view group) {
  if (wanted.empty()) wanted = "root";
  auto wanted_number = number(wanted);
  for (std::string_view rest = passwd; !rest.empty();) {
    std::string_view line = next(rest, '\n');
    std::string_view name = next(line, ':');
    next(line, ':');  // password
    auto uid = number(next(line, ':'));
    auto gid = number(next(line, ':'));
    next(line, ':');  // full name
    std::string_view home = next(line, ':');
    std::string_view shell = next(line, ':');
    if (name.empty() || !uid || !gid) continue;
    if (wanted_number ? *uid != *wanted_number : name != wanted) continue;
    User user{*uid, *gid, {}, std::string(name), std::string(home), std::string(shell)};
    user.groups.push_back(user.gid);
    add_groups(user, group);
    return user;
  }
  if (wanted_number) return User{*wanted_number, *wanted_number, {}, std::string(wanted), "/", "/bin/sh"};
  // A root disk without /etc/passwd still has root.
  if (wanted == "root") return User{0, 0, {0}, "root", "/root", "/bin/sh"};
  return field_error("user", "guest.no_user", "there is no user " + escape(wanted, 64) + " in the sandbox");
}

Result<User> find_user(std::string_view wanted) {
  return find_user(wanted, read_small("/etc/passwd", kMaxFileBytes), read_small("/etc/group", kMaxFileBytes));
}

}  // namespace space::guest
