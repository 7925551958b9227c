// SPDX-License-Identifier: Apache-2.0
#include "cli/settings.h"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "lib/os/file.h"

namespace space::cli {
namespace {

Error usage(const std::string& message) {
  return make_error(Code::kInvalidArgument, "cli.usage", message);
}

struct FileSettings {
  std::optional<std::string> url;
  std::optional<std::string> key;
  std::optional<std::string> key_file;
};

Result<FileSettings> read_config(const std::string& path) {
  FileSettings found;
  if (!os::exists(path)) return found;
  SPACE_TRY(std::string text, os::read_file(path, 64u << 10));
  toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    std::ostringstream where;
    where << path << ":" << parsed.error().source().begin.line << ": " << parsed.error().description();
    return usage(where.str());
  }
  for (auto&& [name, node] : parsed.table()) {
    auto value = node.value<std::string>();
    if (!value) return usage(path + ": " + std::string(name.str()) + " must be a string");
    if (name == "url") {
      found.url = *value;
    } else if (name == "key") {
      found.key = *value;
    } else if (name == "key_file") {
      found.key_file = *value;
    } else {
      return usage(path + ": unknown setting \"" + std::string(name.str()) +
                   "\"; there are url, key and key_file");
    }
  }
  return found;
}

std::string trimmed(std::string text) {
  auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && blank(text.back())) text.pop_back();
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), blank));
  return text;
}

Result<std::string> checked_key(std::string key, const std::string& origin) {
  key = trimmed(std::move(key));
  bool plain =
      !key.empty() && std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (!plain) return usage(origin + " holds no key: a key is one line without blanks");
  return key;
}

Result<std::string> key_from_file(const std::string& path) {
  SPACE_TRY(std::string text, os::read_file(path, 4096));
  return checked_key(std::move(text), path);
}

}  // namespace

Result<Settings> load_settings(const Flags& flags, Lookup environment) {
  FileSettings file;
  const char* home = environment("HOME");
  std::string config = home == nullptr ? "" : std::string(home) + "/.config/space/config.toml";
  const char* env_url = environment("SPACE_URL");
  const char* env_key = environment("SPACE_KEY");
  if (!config.empty()) {
    SPACE_TRY(file, read_config(config));
  }
  std::string url = flags.url                                ? *flags.url
                    : env_url != nullptr && *env_url != '\0' ? env_url
                                                             : file.url.value_or(kDefaultUrl);
  Settings settings;
  auto endpoint = http::client::parse_url(url);
  if (!endpoint.ok()) return usage(endpoint.error().message);
  settings.endpoint = std::move(endpoint).value();
  if (flags.key_file) {
    SPACE_TRY(settings.key, key_from_file(*flags.key_file));
  } else if (env_key != nullptr && *env_key != '\0') {
    SPACE_TRY(settings.key, checked_key(env_key, "SPACE_KEY"));
  } else if (file.key) {
    SPACE_TRY(settings.key, checked_key(*file.key, config));
  } else if (file.key_file) {
    SPACE_TRY(settings.key, key_from_file(*file.key_file));
  }
  return settings;
}

}  // namespace space::cli
