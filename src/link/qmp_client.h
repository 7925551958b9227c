// SPDX-License-Identifier: Apache-2.0
#pragma once
// The client of one VMM's machine socket: handshake, commands with deadlines, events.
//
// Reads all the time, so that a VMM never blocks on us. A VMM that breaks the protocol (see qmp_codec.h),
// answers what was not asked or closes the socket ends the client: everything fails with `why()` then. A
// command that timed out may be answered later; too many of those end the client too.
//
// Resource type; one loop. Posture: hostile-guest.

#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "lib/async/event.h"
#include "lib/async/task.h"
#include "lib/async/task_scope.h"
#include "lib/base/result.h"
#include "lib/os/fd.h"
#include "link/qmp_codec.h"

namespace space::link {

class QmpClient {
 public:
  using OnEvent = std::function<void(const QmpEvent&)>;

  // `socket` is connected and non-blocking. `on_event` is called from the loop; QmpClosed is its last event,
  // and comes unless stop() came first.
  QmpClient(const async::Executor& executor, os::Fd socket, OnEvent on_event);
  QmpClient(const QmpClient&) = delete;
  QmpClient& operator=(const QmpClient&) = delete;

  void start();
  // Until the handshake is done. Errors: link.qmp_not_answering, link.qmp_protocol, link.qmp_closed.
  async::Task<Result<void>> wait_ready(std::chrono::milliseconds limit);
  // Carries out `command` and says in which state the machine is then. A VMM that closes its socket after
  // Quit did what it was told. Errors: as wait_ready, and link.machine_command_failed.
  async::Task<Result<linkapi::MachineState>> command(linkapi::MachineCommand command,
                                                     std::chrono::milliseconds limit);
  [[nodiscard]] bool alive() const { return !dead_.has_value(); }
  async::Task<void> stop();

 private:
  async::Task<void> read_loop();
  async::Task<void> handshake();
  async::Task<Result<QmpAnswer>> execute(std::string_view name,
                                         std::chrono::steady_clock::time_point deadline);
  async::Task<Result<void>> send(std::string line, std::chrono::steady_clock::time_point deadline);
  Result<void> take(const QmpMessage& message);
  void close(Error why);

  boost::asio::posix::stream_descriptor socket_;
  OnEvent on_event_;
  QmpLines lines_;
  std::optional<Error> dead_;
  bool greeted_ = false;
  bool ready_ = false;
  bool quitting_ = false;
  bool sending_ = false;
  std::uint64_t next_id_ = 1;
  // Commands under way, and those that nobody waits for any more (`abandoned`).
  struct Pending {
    std::optional<QmpAnswer> answer;
    bool abandoned = false;
  };
  std::map<std::uint64_t, Pending> pending_;
  async::Event changed_;
  async::TaskScope scope_;
};

}  // namespace space::link
