// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `space up` can be told. One table of options serves the command line, the file space.toml and
// --print-config, so they can't disagree. The command line wins over the file. Posture: operator-only.

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace space::supervise {

// Value type.
struct Options {
  std::string data = "/var/lib/space";
  std::string listen = "127.0.0.1:7350";
  std::string url;                      // empty: from the address that was bound
  std::uint64_t min_free = 256u << 20;  // bytes
  std::vector<std::string> templates;
  std::string recipes;
  std::string accel = "auto";
  std::string backend = "qemu";
  std::uint64_t uid_base = 0;  // 0: derived from the node's id
  std::string bin;             // empty: beside the running program
  std::string log_level = "info";
};

// The configuration file that is read when none is named.
inline constexpr const char* kDefaultConfig = "/etc/space/space.toml";

struct Request {
  Options options;
  enum class Action : std::uint8_t { kRun, kPrintConfig, kHelp } action = Action::kRun;
  std::string text;  // for kHelp and kPrintConfig: what to print
};

// `arguments` without "space up". Errors: supervise.usage, os.file.
Result<Request> parse_arguments(const std::vector<std::string>& arguments);

// Sets what the file says. Errors: supervise.config with file and line.
Result<void> read_config(const std::string& path, Options& options);

// A complete space.toml with every option, explained.
std::string print_config(const Options& options);

}  // namespace space::supervise
