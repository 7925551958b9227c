// SPDX-License-Identifier: Apache-2.0
#include "guest/boot/settings.h"

#include <algorithm>

namespace space::guest::boot {
namespace {

bool is_host_name(std::string_view text) {
  return !text.empty() && text.size() <= 63 && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                  c == '.';
         });
}

}  // namespace

Settings parse_command_line(std::string_view text) {
  Settings settings;
  while (!text.empty()) {
    std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    std::size_t equals = std::min(word.find('='), word.size());
    std::string_view name = word.substr(0, equals);
    std::string_view value = word.substr(std::min(equals + 1, word.size()));
    if (name == "space.hostname" && is_host_name(value)) settings.hostname = value;
    if (name == "space.init" && value == "systemd") settings.init = Init::kSystemd;
    if (name == "space.root" && value.substr(0, 5) == "/dev/") settings.root = value;
    if (name == "space.tmp" && value == "memory") settings.tmp_in_memory = true;
    if (name == "space.trace") settings.trace = true;
  }
  return settings;
}

}  // namespace space::guest::boot
