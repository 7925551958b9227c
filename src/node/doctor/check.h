// SPDX-License-Identifier: Apache-2.0
#pragma once
// One thing that doctor looks at, and its answer. Value types; each check is a function without arguments
// that tries the real thing and leaves nothing behind. Blocking.

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace space::node::doctor {

enum class Status : std::uint8_t {
  kOk,
  kWarn,  // sandboxes run, something is slower or missing
  kFail,  // sandboxes don't run
};
constexpr std::string_view to_string(Status status) {
  return status == Status::kOk ? "ok" : status == Status::kWarn ? "warn" : "fail";
}

struct Check {
  std::string id;
  Status status = Status::kFail;
  std::string found;  // what was seen here
  std::string means;  // what it is for
  std::string mend;   // what to do; empty when it is ok
};

// What a check's function finds out; id, meaning and remedy stand in the table (doctor.cc).
struct Finding {
  Status status = Status::kFail;
  std::string found;
};

// Runs `look` in a process of its own, after unshare(`namespaces`), within `limit`: what it makes vanishes
// with it, and what hangs is killed. When the namespaces can't be made, `otherwise` with the reason.
Finding in_child(int namespaces, Status otherwise, const std::function<Finding()>& look,
                 std::chrono::milliseconds limit = std::chrono::seconds(5));

}  // namespace space::node::doctor
