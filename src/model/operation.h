// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kinds and states of operations, and how long each kind may take. Pure.

#include <chrono>
#include <cstdint>
#include <string_view>

#include "lib/base/result.h"

namespace space::model {

// Names are stored and shown in the API: never rename.
enum class OperationKind : std::uint8_t { kCreateSession, kKillSession, kBuildTemplate, kRemoveTemplate };
enum class OperationState : std::uint8_t { kPending, kRunning, kSucceeded, kFailed };

std::string_view to_string(OperationKind kind);
std::string_view to_string(OperationState state);
// For names that this program stored. Errors: model.no_such_operation_kind, model.no_such_operation_state.
Result<OperationKind> parse_operation_kind(std::string_view name);
Result<OperationState> parse_operation_state(std::string_view name);

inline bool is_over(OperationState state) {
  return state == OperationState::kSucceeded || state == OperationState::kFailed;
}

// From acceptance to the end. An operation that is not over by then fails, and what it began is undone.
std::chrono::seconds time_allowed(OperationKind kind);

}  // namespace space::model
