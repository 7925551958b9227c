// SPDX-License-Identifier: Apache-2.0
#include "cli/target.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>

#include "lib/base/bytes.h"

namespace space::cli {
namespace {

Error usage(const std::string& message) {
  return make_error(Code::kInvalidArgument, "cli.usage", message);
}

bool has_dotdot(std::string_view path) {
  while (!path.empty()) {
    auto slash = path.find('/');
    if (path.substr(0, slash) == "..") return true;
    if (slash == std::string_view::npos) return false;
    path.remove_prefix(slash + 1);
  }
  return false;
}

Result<std::uint16_t> parse_port(std::string_view text, unsigned least) {
  unsigned value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > 65535) {
    return usage("a port is a number from 1 to 65535, not \"" + escape(text) + "\"");
  }
  return static_cast<std::uint16_t>(value);
}

constexpr std::array<std::pair<std::string_view, int>, 31> kSignals = {{
    {"HUP", SIGHUP},       {"INT", SIGINT},   {"QUIT", SIGQUIT},   {"ILL", SIGILL},   {"TRAP", SIGTRAP},
    {"ABRT", SIGABRT},     {"BUS", SIGBUS},   {"FPE", SIGFPE},     {"KILL", SIGKILL}, {"USR1", SIGUSR1},
    {"SEGV", SIGSEGV},     {"USR2", SIGUSR2}, {"PIPE", SIGPIPE},   {"ALRM", SIGALRM}, {"TERM", SIGTERM},
    {"STKFLT", SIGSTKFLT}, {"CHLD", SIGCHLD}, {"CONT", SIGCONT},   {"STOP", SIGSTOP}, {"TSTP", SIGTSTP},
    {"TTIN", SIGTTIN},     {"TTOU", SIGTTOU}, {"URG", SIGURG},     {"XCPU", SIGXCPU}, {"XFSZ", SIGXFSZ},
    {"VTALRM", SIGVTALRM}, {"PROF", SIGPROF}, {"WINCH", SIGWINCH}, {"IO", SIGIO},     {"PWR", SIGPWR},
    {"SYS", SIGSYS},
}};

}  // namespace

Result<Place> parse_place(std::string_view text) {
  Place place;
  auto colon = text.find(':');
  auto slash = text.find('/');
  bool local =
      colon == std::string_view::npos || colon == 0 || (slash != std::string_view::npos && slash < colon);
  if (local) {
    if (text.empty()) return usage("a path is empty");
    place.path = std::string(text);
    return place;
  }
  place.session = std::string(text.substr(0, colon));
  place.path = std::string(text.substr(colon + 1));
  if (!place.path.starts_with('/')) {
    return usage("a path in a session is absolute: " + escape(*place.session) + ":/" + escape(place.path) +
                 " (write ./" + escape(text) + " for a local file of that name)");
  }
  if (has_dotdot(place.path))
    return usage("a path in a session has no \"..\" component: " + escape(place.path));
  return place;
}

Result<PortPair> parse_port_pair(std::string_view text) {
  PortPair pair;
  auto colon = text.find(':');
  std::string_view remote = colon == std::string_view::npos ? text : text.substr(colon + 1);
  SPACE_TRY(pair.remote, parse_port(remote, 1));
  if (colon == std::string_view::npos) {
    pair.local = pair.remote;
  } else if (colon > 0) {
    SPACE_TRY(pair.local, parse_port(text.substr(0, colon), 0));
  }
  return pair;
}

Result<int> parse_signal(std::string_view text) {
  int number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= 1 && number <= 64) return number;
  std::string upper(text);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  std::string_view name = upper;
  if (name.starts_with("SIG")) name.remove_prefix(3);
  for (const auto& [known, value] : kSignals) {
    if (known == name) return value;
  }
  return usage("no such signal: " + escape(text) + "; give a number from 1 to 64 or a name such as TERM");
}

Result<std::pair<std::string, std::string>> parse_variable(std::string_view text,
                                                           const char* (*lookup)(const char*)) {
  auto equals = text.find('=');
  std::string name(text.substr(0, equals));
  if (name.empty()) return usage("a variable is NAME=VALUE, not \"" + escape(text) + "\"");
  if (equals != std::string_view::npos) return std::pair(name, std::string(text.substr(equals + 1)));
  const char* value = lookup(name.c_str());
  if (value == nullptr)
    return usage("--env " + escape(name) + " takes its value from your environment, where it isn't set");
  return std::pair(name, std::string(value));
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

Result<std::string> name_in_listing(std::string_view directory, std::string_view path) {
  std::string_view name = path;
  std::string prefix = join(directory, "");
  if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  if (!is_plain_name(name)) {
    return make_error(Code::kDataLoss, "cli.hostile_name",
                      "the session lists an entry of " + escape(directory) + " as \"" + escape(path) +
                          "\", which is no file name");
  }
  return std::string(name);
}

std::string base_name(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  auto slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::string join(std::string_view directory, std::string_view name) {
  std::string out(directory);
  if (!out.ends_with('/')) out += '/';
  return out.append(name);
}

}  // namespace space::cli
