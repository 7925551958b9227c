// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stands between the user's terminal or pipes and a command in a session, over the exec or attach WebSocket.
//
// Both directions are bounded: output is read from the server only as fast as it can be written here. The
// result is the command's exit code, or one of exit_code.h when it isn't known; a stream that breaks is never
// a success.
//
// The first interrupt (SIGINT) goes to the command, the second kills it, the third leaves at once. SIGTERM
// goes to the command. When the reader of our output leaves, the command gets SIGPIPE. Leaving ("~." or
// SIGHUP) lets it run on.

#include <string>

#include "cli/context.h"

namespace space::cli {

enum class Input : unsigned char { kNone, kForward };
enum class Screen : unsigned char {
  kPlain,
  kTerminal,  // the command has a PTY: raw mode here when our input is a terminal, its size follows ours
};

struct RelayPlan {
  std::string target;       // of the upgrade, below /v1
  std::string first_frame;  // sent once connected; empty for none
  std::string session;
  std::string command;  // when it is known beforehand
  Input input = Input::kNone;
  Screen screen = Screen::kPlain;
};

async::Task<int> relay(Context& context, RelayPlan plan);

// Is `fd` something that holds input meant for the command: a pipe, a socket or a file?
bool carries_input(int fd);

}  // namespace space::cli
