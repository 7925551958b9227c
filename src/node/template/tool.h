// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs the programs that a build is made of: always as an argument list, never through a shell.
//
// A tool dies with the process that called it (parent-death signal); one in namespaces of its own takes
// everything it started along, since it is the init of its pid namespace, and its mounts vanish with it.
// Errors: failed_precondition template.tool_missing, template.not_root; internal template.tool_failed, or
// what the tool's words mean: resource_exhausted template.no_space, unavailable template.no_network,
// invalid_argument template.package_not_found.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "node/template/progress.h"

namespace space::node::tmpl {

enum class Namespaces : std::uint8_t {
  kShared,  // of the caller
  kOwn,     // own mount and pid namespace, /proc mounted anew; needs root
};

struct BindMount {
  std::string from;
  std::string to;
};

struct Tool {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value", added to base_environment()
  std::string directory = "/";
  Namespaces namespaces = Namespaces::kShared;
  std::vector<BindMount> binds;  // kOwn only, made in order
  std::string
      chroot;  // kOwn only: becomes / after the mounts, with /proc and /dev of its own; then `directory`
};

// Called with each line that the tool prints on either stream.
using LineFn = std::function<void(std::string_view line)>;

// PATH, HOME, LC_ALL and the proxy variables of this process: nothing else reaches a tool.
std::vector<std::string> base_environment();

// Blocks until the tool has ended with status 0; returns the last 256 KiB of what it printed.
// Reports still_busy() every 10 s without a line.
Result<std::string> run_tool(const Tool& tool, Reporter& reporter, const LineFn& on_line = {});

// The error that a failed tool's words mean. Pure.
Error classify_failure(std::string_view program, std::string_view status, std::string_view output);

}  // namespace space::node::tmpl
