// SPDX-License-Identifier: Apache-2.0
#pragma once
// The benchmarks of space-bench: each runs on its own, takes its peers' figures in the same run, and returns
// the object that is printed.

#include <boost/json/object.hpp>
#include <string_view>

#include "lib/base/result.h"

namespace space::bench {

Result<boost::json::object> run_exec();
Result<boost::json::object> run_boot();

struct Bench {
  std::string_view name;
  std::string_view what;
  Result<boost::json::object> (*run)();
};
inline constexpr Bench kBenches[] = {
    {"exec", "a command through the API against the same spawn on the bare channel; stream and copy rates",
     run_exec},
    {"boot", "cold boot of a session to daemon ready, and the guest kernel's part of it", run_boot},
};

}  // namespace space::bench
