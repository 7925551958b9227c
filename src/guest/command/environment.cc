// SPDX-License-Identifier: Apache-2.0
#include "guest/command/environment.h"

#include <map>

namespace space::guest {
namespace {

constexpr std::string_view kRootPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
constexpr std::string_view kUserPath = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games";

}  // namespace

std::vector<std::string> make_environment(const User& user, std::string_view term, const EnvVars& extra) {
  std::map<std::string, std::string> vars = {
      {"PATH", std::string(user.uid == 0 ? kRootPath : kUserPath)},
      {"HOME", user.home.empty() ? "/" : user.home},
      {"USER", user.name},
      {"LOGNAME", user.name},
      {"SHELL", user.shell.empty() ? "/bin/sh" : user.shell},
      {"LANG", "C.UTF-8"},
  };
  if (!term.empty()) vars["TERM"] = term;
  for (const auto& [name, value] : extra) vars[name] = value;
  std::vector<std::string> environment;
  environment.reserve(vars.size());
  for (const auto& [name, value] : vars) environment.push_back(name + "=" + value);
  return environment;
}

Result<void> check_environment(const EnvVars& extra) {
  for (const auto& [name, value] : extra) {
    bool good = !name.empty() && name.find('=') == std::string::npos &&
                name.find('\0') == std::string::npos && value.find('\0') == std::string::npos;
    if (!good) {
      return field_error(
          "env", "guest.malformed_environment",
          "a variable needs a name without '=', and neither name nor value may hold a zero byte");
    }
  }
  return {};
}

std::string_view environment_value(const std::vector<std::string>& environment, std::string_view name) {
  for (std::string_view var : environment) {
    if (var.size() > name.size() && var[name.size()] == '=' && var.substr(0, name.size()) == name) {
      return var.substr(name.size() + 1);
    }
  }
  return {};
}

std::vector<std::string> program_candidates(std::string_view program, std::string_view path) {
  if (program.find('/') != std::string_view::npos) return {std::string(program)};
  std::vector<std::string> candidates;
  for (;;) {
    std::size_t colon = path.find(':');
    std::string_view directory = path.substr(0, colon);
    // An empty entry means the working directory, as in every shell.
    candidates.push_back((directory.empty() ? "." : std::string(directory)) + "/" + std::string(program));
    if (colon == std::string_view::npos) return candidates;
    path.remove_prefix(colon + 1);
  }
}

}  // namespace space::guest
