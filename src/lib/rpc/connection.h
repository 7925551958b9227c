// SPDX-License-Identifier: Apache-2.0
#pragma once
// A connected stream socket that carries calls (lib/wire/mux.h), one of its two ends.
//
// The asking end attaches (sends the resync marker) at construction; calls may start once attached() holds.
// The answering end hands every new call to its handler. Reading and writing run in the connection's own
// scope. A peer that breaks the protocol loses the connection, and so does an answering peer that sends
// descriptors or chops its data in too many frames to be queued.
//
// Resource type. One loop. Errors of calls: see call.h.

#include <functional>
#include <memory>
#include <vector>

#include "lib/async/task.h"
#include "lib/async/task_scope.h"
#include "lib/base/result.h"
#include "lib/os/fd.h"
#include "lib/os/random.h"
#include "lib/rpc/call.h"
#include "lib/wire/mux.h"

namespace space::rpc {

using CallHandler = std::function<async::Task<void>(Call)>;

class Connection {
 public:
  // Asking end over `socket` (non-blocking). `generation` goes into the marker.
  static std::unique_ptr<Connection> ask(const async::Executor& executor, os::Fd socket, os::Random& random,
                                         std::uint64_t generation = 0, wire::MuxLimits limits = {});
  // Answering end. `handler` runs once per call, in the connection's scope; it is cancelled when the
  // connection ends.
  static std::unique_ptr<Connection> answer(const async::Executor& executor, os::Fd socket,
                                            CallHandler handler, wire::MuxLimits limits = {});
  ~Connection();

  // Waits for the echo. Errors: rpc.connection_lost, rpc.not_attached after the deadline, those of
  // Mux::receive.
  async::Task<Result<void>> wait_attached(std::chrono::milliseconds limit);
  [[nodiscard]] bool attached() const;

  // Errors: rpc.connection_lost, those of Mux::open.
  Result<Call> start(Bytes request, std::vector<os::Fd> fds = {});
  // A call with one answer, within `limit`. Errors: rpc.deadline, the status of the call.
  async::Task<Result<Bytes>> unary(Bytes request, std::chrono::milliseconds limit,
                                   std::vector<os::Fd> fds = {});

  // Bytes that wait for the peer to read. Bounded by windows but for requests: who opens calls to a peer that
  // may not read looks here first.
  [[nodiscard]] std::size_t unsent() const;
  [[nodiscard]] bool alive() const;
  // Why it ended. Precondition: !alive().
  [[nodiscard]] const Error& why() const;
  // Waits until the connection has ended, for whatever reason.
  async::Task<void> closed();
  // Closes, cancels handlers and waits for them.
  async::Task<void> stop();

 private:
  Connection(std::shared_ptr<internal::Core> core);
  std::shared_ptr<internal::Core> core_;
};

}  // namespace space::rpc
