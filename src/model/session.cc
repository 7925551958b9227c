// SPDX-License-Identifier: Apache-2.0
#include "model/session.h"

#include <string>

namespace space::model {

std::string_view to_string(SessionState state) {
  switch (state) {
    case SessionState::kCreating:
      return "creating";
    case SessionState::kRunning:
      return "running";
    case SessionState::kKilling:
      return "killing";
    case SessionState::kKilled:
      return "killed";
    case SessionState::kFailed:
      return "failed";
  }
  return "unknown";
}

Result<SessionState> parse_session_state(std::string_view name) {
  for (SessionState state : kAllSessionStates) {
    if (to_string(state) == name) return state;
  }
  return field_error("state", "model.no_such_state",
                     "state must be creating, running, killing, killed or failed");
}

std::optional<SessionState> next(SessionState state, SessionEvent event) {
  using S = SessionState;
  switch (event) {
    case SessionEvent::kStarted:
      if (state == S::kCreating) return S::kRunning;
      break;
    case SessionEvent::kCreateFailed:
      if (state == S::kCreating) return S::kFailed;
      break;
    case SessionEvent::kSandboxLost:
      if (state == S::kCreating || state == S::kRunning) return S::kFailed;
      break;
    case SessionEvent::kKillRequested:
      if (state != S::kKilled) return S::kKilling;
      break;
    case SessionEvent::kDestroyed:
      if (state == S::kKilling) return S::kKilled;
      break;
  }
  return std::nullopt;
}

bool is_live(SessionState state) {
  return state == SessionState::kCreating || state == SessionState::kRunning ||
         state == SessionState::kKilling;
}

Result<void> check_usable(SessionState state) {
  if (state == SessionState::kRunning) return {};
  std::string message = "the session is " + std::string(to_string(state));
  message += state == SessionState::kCreating ? "; wait until it runs" : "; create another one";
  return make_error(Code::kFailedPrecondition, "control.session_not_running", std::move(message));
}

Result<void> check_extendable(SessionState state) {
  if (state == SessionState::kRunning || state == SessionState::kCreating) return {};
  return make_error(Code::kFailedPrecondition, "control.session_ended",
                    "the session is " + std::string(to_string(state)) + " and its deadline can't be moved");
}

}  // namespace space::model
