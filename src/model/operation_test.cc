// SPDX-License-Identifier: Apache-2.0
#include "model/operation.h"

#include <gtest/gtest.h>

namespace space::model {
namespace {

TEST(Operations, NamesReadBack) {
  for (auto kind : {OperationKind::kCreateSession, OperationKind::kKillSession, OperationKind::kBuildTemplate,
                    OperationKind::kRemoveTemplate}) {
    EXPECT_EQ(*parse_operation_kind(to_string(kind)), kind);
  }
  for (auto state : {OperationState::kPending, OperationState::kRunning, OperationState::kSucceeded,
                     OperationState::kFailed}) {
    EXPECT_EQ(*parse_operation_state(to_string(state)), state);
  }
  EXPECT_EQ(parse_operation_kind("x").error().code, Code::kDataLoss);
  EXPECT_EQ(parse_operation_state("").error().code, Code::kDataLoss);
}

TEST(Operations, EveryKindHasADeadline) {
  for (auto kind : {OperationKind::kCreateSession, OperationKind::kKillSession, OperationKind::kBuildTemplate,
                    OperationKind::kRemoveTemplate}) {
    EXPECT_GT(time_allowed(kind).count(), 0);
  }
}

TEST(Operations, OnlySuccessAndFailureAreOver) {
  EXPECT_FALSE(is_over(OperationState::kPending));
  EXPECT_FALSE(is_over(OperationState::kRunning));
  EXPECT_TRUE(is_over(OperationState::kSucceeded));
  EXPECT_TRUE(is_over(OperationState::kFailed));
}

}  // namespace
}  // namespace space::model
