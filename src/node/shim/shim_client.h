// SPDX-License-Identifier: Apache-2.0
#pragma once
// Node's end of the conversation with the library preloaded into a VMM (shim_protocol.h).
//
// The other end is a process that a guest may have taken over, so an answer is believed only as far as it can
// do no harm: it must be of the right length, version and id, and the range it names page-aligned, of the
// expected size and inside user space. Node then reads that range in that process only.
//
// Blocking, each call at most `timeout`; call from a pool thread, one call at a time. Resource type.
// Posture: hostile-guest. Errors: shim.unreachable (retryable), shim.timeout, shim.malformed_answer,
// shim.refused.

#include <chrono>
#include <cstdint>
#include <string>

#include "lib/base/result.h"
#include "lib/os/fd.h"

namespace space::node::shim {

// What the VMM says of its guest's memory. Value type.
struct Mapping {
  std::uint64_t address = 0;     // in the VMM's address space, page-aligned
  std::uint64_t size_bytes = 0;  // as expected by the caller
  bool bound = false;            // an image is mapped in place of the placeholder
  bool armed = false;            // the kernel records written pages; if not:
  int tracking_errno = 0;        // 0 when arming was never asked for
  std::string tracking_problem;  // a sentence for doctor and the log, empty when armed

  bool operator==(const Mapping&) const = default;
};

class ShimClient {
 public:
  // Connects to the socket at `path`, as node sees it; paths longer than a socket address are fine.
  static Result<ShimClient> connect(const std::string& path, std::uint64_t expected_size_bytes,
                                    std::chrono::milliseconds timeout = std::chrono::seconds(5));

  // Maps `image` (readable; at least the expected size) over the placeholder and arms tracking. Precondition:
  // the machine waits for device state or is stopped. On shim.unreachable nothing is known: connect again and
  // query(). `armed` in the answer may be false; that is no error.
  Result<Mapping> bind(int image);
  // Arms tracking without changing the mapping. Idempotent: what is recorded already stays recorded.
  Result<Mapping> track();
  // Changes nothing; for a node that takes over a running VMM.
  Result<Mapping> query();

 private:
  ShimClient(os::Fd socket, std::uint64_t size, std::chrono::milliseconds timeout)
      : socket_(std::move(socket)), size_(size), timeout_(timeout) {}
  Result<Mapping> ask(std::uint16_t kind, std::uint64_t size, int fd);

  os::Fd socket_;
  std::uint64_t size_;
  std::chrono::milliseconds timeout_;
  std::uint64_t next_id_ = 1;
};

// Checks one answer against what was asked. Pure; what the fuzzer and the tests call.
Result<Mapping> check_answer(const void* bytes, std::size_t length, std::uint16_t kind, std::uint64_t id,
                             std::uint64_t expected_size_bytes);

}  // namespace space::node::shim
