// SPDX-License-Identifier: Apache-2.0
#pragma once
// The agent mode as a whole: builds the object graph, serves until SIGTERM or SIGINT. Running machines stay.

#include "node/options.h"

namespace space::node {

// Exit status: 0 stopped, 1 could not start.
int run_agent(const Options& options);

}  // namespace space::node
