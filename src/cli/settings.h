// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which server, and with which key. The command line wins over the environment (SPACE_URL, SPACE_KEY), and
// that over
// ~/.config/space/config.toml:
//
//   url = "http://127.0.0.1:7350"
//   key = "space_..."          # or
//   key_file = "/path/to/key"
//
// Posture: operator-only.

#include <functional>
#include <optional>
#include <string>

#include "lib/base/result.h"
#include "lib/http/client/url.h"

namespace space::cli {

inline constexpr const char* kDefaultUrl = "http://127.0.0.1:7350";

// The value of an environment variable, or nullptr.
using Lookup = const char* (*)(const char*);

struct Flags {
  std::optional<std::string> url;
  std::optional<std::string> key_file;
};

struct Settings {
  http::client::Endpoint endpoint;
  std::string key;  // empty when none was found: the server will say what it thinks of that
};

// Errors: cli.usage for a malformed URL, key or file; os.file for a named file that can't be read.
Result<Settings> load_settings(const Flags& flags, Lookup environment);

}  // namespace space::cli
