// SPDX-License-Identifier: Apache-2.0
#pragma once
// One command in a session through the whole platform.

#include <boost/json/object.hpp>
#include <initializer_list>
#include <string>

#include "cli/api.h"
#include "lib/async/task.h"
#include "lib/base/result.h"

namespace space::bench {

struct Ran {
  double ms = 0;            // from the upgrade request to the exit event
  std::uint64_t bytes = 0;  // of both output streams
  std::string output;       // their first 64 KiB
};

// A request for the given words.
boost::json::object command(std::initializer_list<boost::json::string_view> argv);

// Runs it to its end. Errors: bench.broken_stream without an exit, bench.command_failed unless it exits with
// 0.
async::Task<Result<Ran>> run_command(cli::Api& api, std::string session, boost::json::object request);

}  // namespace space::bench
