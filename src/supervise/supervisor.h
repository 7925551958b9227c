// SPDX-License-Identifier: Apache-2.0
#pragma once
// Keeps the service processes running: starts them, restarts those that die, stops them in order, reaps
// orphans.
//
// It is the subreaper of everything that they start, so a VMM whose node process died is its child until the
// next node process adopts it. Stopping in order means: each gets SIGTERM and its grace, then SIGKILL, before
// the next is told. After too many deaths in a row of one of them the whole platform stops without ending the
// sandboxes, so that a start after the repair can adopt them. Resource type; one loop; the process must have
// no other thread.

#include <boost/asio/signal_set.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/async/event.h"
#include "lib/async/task_scope.h"
#include "supervise/child.h"
#include "supervise/children_file.h"
#include "supervise/log_file.h"

namespace space::supervise {

struct Timing {
  std::chrono::milliseconds first_pause{100};  // before the first restart; doubles each time
  std::chrono::milliseconds longest_pause{5'000};
  std::chrono::seconds window{60};  // deaths further back are forgotten
  std::size_t max_deaths = 6;       // within the window
  std::chrono::milliseconds leftover_grace{1'000};
};

struct Service {
  ChildSpec spec;
  std::chrono::milliseconds grace;  // from SIGTERM to SIGKILL
};

class Supervisor {
 public:
  // `services` in the order in which they are started; they are stopped in the reverse. `say` shows a line to
  // the operator. `log_directory` gets NAME.log of each.
  Supervisor(async::Loop& loop, std::vector<Service> services, std::string log_directory,
             ChildrenFile remembered, Timing timing, std::function<void(const std::string&)> say);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Starts everything. Errors: supervise.spawn, os.file; then nothing runs.
  async::Task<Result<void>> start();
  // Waits for SIGTERM or SIGINT (then there is nothing to report), or for a service that can't be kept
  // running (supervise.crash_loop).
  async::Task<Result<void>> wait();
  [[nodiscard]] bool ending() const { return asked_to_stop_ || fatal_.has_value(); }
  // Woken whenever a signal came, a process died or was started.
  [[nodiscard]] async::Event& changed() { return changed_; }

  enum class Ending : std::uint8_t {
    kGraceful,  // as described above; what is left of their descendants is killed
    kAbrupt,    // SIGKILL to the services alone
  };
  async::Task<void> stop(Ending how);

 private:
  struct Child;
  Result<void> launch(Child& child);
  async::Task<void> keep(Child& child);
  async::Task<void> pump(Child& child, os::Fd output);
  async::Task<void> reap();
  async::Task<void> take_signals();
  void remember() const;
  async::Task<void> end(Child& child, Ending how);
  async::Task<void> end_leftovers();

  async::Loop& loop_;
  std::string log_directory_;
  ChildrenFile remembered_;
  Timing timing_;
  std::function<void(const std::string&)> say_;
  boost::asio::signal_set child_signals_;
  boost::asio::signal_set stop_signals_;
  async::Event changed_;
  std::vector<std::unique_ptr<Child>> children_;
  bool asked_to_stop_ = false;
  bool hurry_ = false;  // a second signal: no more grace
  bool stopping_ = false;
  std::optional<Error> fatal_;
  async::TaskScope scope_;  // last: its tasks use the rest
};

// "exit code 3" or "signal 9 (Killed)".
std::string describe_end(int wait_status);

}  // namespace space::supervise
