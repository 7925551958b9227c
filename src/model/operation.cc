// SPDX-License-Identifier: Apache-2.0
#include "model/operation.h"

#include <iterator>
#include <string>

namespace space::model {
namespace {
constexpr std::string_view kKinds[] = {"create_session", "kill_session", "build_template", "remove_template"};
constexpr std::string_view kStates[] = {"pending", "running", "succeeded", "failed"};
}  // namespace

std::string_view to_string(OperationKind kind) {
  return kKinds[static_cast<std::size_t>(kind)];
}
std::string_view to_string(OperationState state) {
  return kStates[static_cast<std::size_t>(state)];
}

Result<OperationKind> parse_operation_kind(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kKinds); ++i) {
    if (kKinds[i] == name) return static_cast<OperationKind>(i);
  }
  return make_error(Code::kDataLoss, "model.no_such_operation_kind",
                    "unknown kind of operation: " + std::string(name));
}

Result<OperationState> parse_operation_state(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kStates); ++i) {
    if (kStates[i] == name) return static_cast<OperationState>(i);
  }
  return make_error(Code::kDataLoss, "model.no_such_operation_state",
                    "unknown state of operation: " + std::string(name));
}

std::chrono::seconds time_allowed(OperationKind kind) {
  switch (kind) {
    // Twenty cold boots at once under software emulation on two cores take most of this.
    case OperationKind::kCreateSession:
      return std::chrono::minutes(2);
    case OperationKind::kKillSession:
      return std::chrono::minutes(1);
    case OperationKind::kBuildTemplate:
      return std::chrono::hours(1);
    case OperationKind::kRemoveTemplate:
      return std::chrono::minutes(1);
  }
  return std::chrono::minutes(1);
}

}  // namespace space::model
