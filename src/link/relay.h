// SPDX-License-Identifier: Apache-2.0
#pragma once
// One relayed call: a client's (control's) on one side, the daemon's on the other.
//
// Two pumps, one per direction, each with at most one event in its hands: what the reader of one side doesn't
// take stops the writer of the other. The client's half-close and reset go to the daemon, the daemon's end
// and errors to the client, after CallRules has judged them. As long as the daemon owes its first answer, a
// deadline runs; afterwards the call lasts as long as both want.
//
// Posture: hostile-guest toward the daemon, tenant-input toward the client.

#include <chrono>

#include "lib/async/task.h"
#include "lib/base/result.h"
#include "lib/obs/log.h"
#include "lib/rpc/call.h"
#include "link/attachment.h"
#include "link/call_rules.h"

namespace space::link {

struct RelayCounts {
  std::uint64_t to_guest_bytes = 0;    // DATA
  std::uint64_t from_guest_bytes = 0;  // DATA
  bool client_left = false;
};

// Relays until one of the three ends it: the daemon (its outcome is returned), the client (client_left; the
// result is of no use to anybody), the rules or the deadline (an error). The daemon's side is closed on
// return; the client's is left for the caller to finish. `request` is the guestapi.Request that `facts` was
// made from; all references outlive the task. Errors: those of Attachment and CallRules.
async::Task<Result<void>> relay_call(rpc::Call& client, Attachment& attachment, RequestFacts facts,
                                     Bytes request, std::chrono::milliseconds answer_limit,
                                     RelayCounts& counts, const obs::Log& log);

}  // namespace space::link
