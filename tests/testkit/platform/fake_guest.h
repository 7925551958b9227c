// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Space Daemon out of a script. What a command does is said by its argv[0]:
//
//   true · exit N · signal N · echo WORDS · err WORDS · bytes (0 to 255) · cat (stdin to stdout until its
//   end) flood N (N bytes of 'f') · sleep (until a signal) · pty (prints "ROWSxCOLS" at each resize, until a
//   signal) missing (guest.command_not_found) · no_exit (ends well without an exit) · drop (the stream
//   breaks) hostile (output on a channel that does not exist)
//
// Files: /full refuses after 1 MiB with guest.disk_full; /zeros/N reads as N zero bytes; /shrunk says 1000
// bytes and has 10; /grown says 10 and has 1000; /proc/x says 0 and has 5; /big/N lists N entries; /hostile
// lists names that are no UTF-8; others are kept in memory. Ports: 7 echoes, 8 says hello and ends, others
// refuse.

#include <memory>

#include "lib/async/task.h"
#include "lib/rpc/call.h"
#include "tests/testkit/platform/fake_sandbox.h"

namespace space::testkit {

// Serves one guestapi.Request until the call is over.
async::Task<void> serve_guest_call(rpc::Call& call, const Bytes& request,
                                   std::shared_ptr<FakeSandbox> sandbox);

}  // namespace space::testkit
