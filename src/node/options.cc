// SPDX-License-Identifier: Apache-2.0
#include "node/options.h"

#include <charconv>

namespace space::node {
namespace {

Error bad(const std::string& option, const std::string& message) {
  return field_error(option, "node.bad_option", "--" + option + ": " + message);
}

template <class Number>
Result<Number> number(const std::string& option, const std::string& text) {
  Number value = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) return bad(option, "wants a number");
  return value;
}

std::vector<std::string> list(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    std::size_t end = std::min(text.find(':', at), text.size());
    if (end != at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

Result<obs::Level> level(const std::string& text) {
  if (text == "debug") return obs::Level::kDebug;
  if (text == "info") return obs::Level::kInfo;
  if (text == "warning") return obs::Level::kWarning;
  if (text == "error") return obs::Level::kError;
  return bad("log-level", "wants debug, info, warning or error");
}

Result<void> set(Options& options, const std::string& name, const std::string& value) {
  if (name == "data") {
    options.data = value;
  } else if (name == "listen-fd") {
    SPACE_TRY(options.listen_fd, number<int>(name, value));
  } else if (name == "link-socket") {
    options.link_socket = value;
  } else if (name == "templates") {
    options.templates = list(value);
  } else if (name == "recipes") {
    options.recipes = list(value);
  } else if (name == "uid-base") {
    SPACE_TRY(options.uid_base, number<uid_t>(name, value));
  } else if (name == "accel") {
    SPACE_TRY(options.acceleration, vmm::parse_acceleration(value));
  } else if (name == "backend") {
    if (value != "qemu" && value != "fake") return bad(name, "wants qemu or fake");
    options.backend = value == "fake" ? BackendKind::kFake : BackendKind::kQemu;
  } else if (name == "spaced") {
    options.spaced = value;
  } else if (name == "mkinitramfs") {
    options.mkinitramfs = value;
  } else if (name == "max-sandboxes") {
    SPACE_TRY(options.max_sandboxes, number<std::uint32_t>(name, value));
  } else if (name == "log-level") {
    SPACE_TRY(options.level, level(value));
  } else {
    return bad(name, "there is no such option");
  }
  return {};
}

}  // namespace

Result<Options> parse_options(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with("--")) return bad(arguments[i], "there is no such option");
    std::string name = arguments[i].substr(2);
    auto equals = name.find('=');
    if (equals != std::string::npos) {
      std::string value = name.substr(equals + 1);
      SPACE_CHECK_OK(set(options, name.substr(0, equals), value));
      continue;
    }
    if (i + 1 == arguments.size()) return bad(name, "wants a value");
    SPACE_CHECK_OK(set(options, name, arguments[++i]));
  }
  if (options.data.empty()) return bad("data", "is needed");
  if (options.listen_fd < 3) return bad("listen-fd", "is needed, a descriptor above 2");
  if (options.link_socket.empty()) return bad("link-socket", "is needed");
  if (options.uid_base < 1000) return bad("uid-base", "is needed, at least 1000");
  return options;
}

}  // namespace space::node
