// SPDX-License-Identifier: Apache-2.0
#pragma once
// The states of a session and what moves it between them. Pure.
//
//   creating --started--> running --sandbox_lost--> failed
//      |  `--create_failed / sandbox_lost--> failed   |
//      `------------- kill_requested, from any state ---> killing --destroyed--> killed
//
// Killed is final: a kill of it changes nothing. Failed holds no sandbox; a kill turns it into killed, which
// is how people say that they have seen it.

#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/base/result.h"

namespace space::model {

// Names are stored and shown in the API: never rename.
enum class SessionState : std::uint8_t { kCreating, kRunning, kKilling, kKilled, kFailed };
inline constexpr SessionState kAllSessionStates[] = {SessionState::kCreating, SessionState::kRunning,
                                                     SessionState::kKilling, SessionState::kKilled,
                                                     SessionState::kFailed};

enum class SessionEvent : std::uint8_t {
  kStarted,        // the sandbox's daemon answers
  kCreateFailed,   // the node could not start it, and nothing is left of it
  kSandboxLost,    // the sandbox ended by itself or was gone after a restart
  kKillRequested,  // by a person, by the deadline, or because the platform stops
  kDestroyed,      // nothing is left of the sandbox
};
inline constexpr SessionEvent kAllSessionEvents[] = {SessionEvent::kStarted, SessionEvent::kCreateFailed,
                                                     SessionEvent::kSandboxLost, SessionEvent::kKillRequested,
                                                     SessionEvent::kDestroyed};

// "creating" and so on.
std::string_view to_string(SessionState state);
// Errors: model.no_such_state (field "state").
Result<SessionState> parse_session_state(std::string_view name);

// The state after `event`, or nothing when the event means nothing in `state` and must be ignored.
std::optional<SessionState> next(SessionState state, SessionEvent event);

// May a session in this state have a sandbox?
bool is_live(SessionState state);

// May commands, files and ports of its sandbox be used? Errors: control.session_not_running, with a sentence
// that says which state it is in and what to do.
Result<void> check_usable(SessionState state);
// May its deadline be moved? Errors: control.session_ended.
Result<void> check_extendable(SessionState state);

}  // namespace space::model
