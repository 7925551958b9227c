// SPDX-License-Identifier: Apache-2.0
#include "model/session.h"

#include <gtest/gtest.h>

#include <map>

namespace space::model {
namespace {

using S = SessionState;
using V = SessionEvent;

// Every state with every event, written out once more by hand: whoever changes a rule must change it here
// too.
TEST(SessionStates, EveryStateAndEventHasTheListedOutcome) {
  const std::map<std::pair<S, V>, S> kMoves = {
      {{S::kCreating, V::kStarted}, S::kRunning},      {{S::kCreating, V::kCreateFailed}, S::kFailed},
      {{S::kCreating, V::kSandboxLost}, S::kFailed},   {{S::kCreating, V::kKillRequested}, S::kKilling},
      {{S::kRunning, V::kSandboxLost}, S::kFailed},    {{S::kRunning, V::kKillRequested}, S::kKilling},
      {{S::kKilling, V::kKillRequested}, S::kKilling}, {{S::kKilling, V::kDestroyed}, S::kKilled},
      {{S::kFailed, V::kKillRequested}, S::kKilling},
  };
  for (S state : kAllSessionStates) {
    for (V event : kAllSessionEvents) {
      auto expected = kMoves.find({state, event});
      auto got = next(state, event);
      if (expected == kMoves.end()) {
        EXPECT_FALSE(got.has_value()) << to_string(state) << " event " << static_cast<int>(event);
      } else {
        EXPECT_EQ(got, expected->second) << to_string(state) << " event " << static_cast<int>(event);
      }
    }
  }
}

TEST(SessionStates, KillIsAcceptedInEveryStateButTheLast) {
  for (S state : kAllSessionStates) {
    EXPECT_EQ(next(state, V::kKillRequested).has_value(), state != S::kKilled) << to_string(state);
  }
}

TEST(SessionStates, EveryStateBeforeTheLastLeadsToKilled) {
  for (S state : kAllSessionStates) {
    if (state == S::kKilled) continue;
    EXPECT_EQ(next(*next(state, V::kKillRequested), V::kDestroyed), S::kKilled) << to_string(state);
  }
}

TEST(SessionStates, NamesReadBack) {
  for (S state : kAllSessionStates) EXPECT_EQ(*parse_session_state(to_string(state)), state);
  EXPECT_EQ(parse_session_state("Running").error().field, "state");
  EXPECT_EQ(parse_session_state("").error().reason, "model.no_such_state");
}

TEST(SessionStates, OnlyARunningSessionIsUsable) {
  for (S state : kAllSessionStates)
    EXPECT_EQ(check_usable(state).ok(), state == S::kRunning) << to_string(state);
  EXPECT_EQ(check_usable(S::kKilled).error().code, Code::kFailedPrecondition);
  EXPECT_NE(check_usable(S::kKilling).error().message.find("killing"), std::string::npos);
}

TEST(SessionStates, ADeadlineMovesWhileTheSessionIsComingOrRunning) {
  for (S state : kAllSessionStates) {
    EXPECT_EQ(check_extendable(state).ok(), state == S::kRunning || state == S::kCreating)
        << to_string(state);
  }
}

TEST(SessionStates, EndedSessionsAreNotLive) {
  EXPECT_FALSE(is_live(S::kKilled));
  EXPECT_FALSE(is_live(S::kFailed));
  EXPECT_TRUE(is_live(S::kKilling));
}

}  // namespace
}  // namespace space::model
