// SPDX-License-Identifier: Apache-2.0
#pragma once
// One sandbox from its first file to the last one's removal, as one coroutine.
//
//   starting ──▶ running ──▶ stopping ──▶ gone
//       └───────────────────────▲
// A new one is brought up step by step; one that an earlier process left is adopted. Whatever goes wrong,
// whoever asks for its end, and whatever the machine does, the way leads through end(): kill everything, take
// everything away. That is repeated until it has worked, so `gone` means that nothing is left. If this
// process dies anywhere, the record tells the next one where to go on.
//
// Resource type; one loop. Shared by its coroutine, the agent's table and callers that wait for it, which may
// outlast the table's entry.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "lib/async/event.h"
#include "node/actions.h"
#include "node/environment.h"
#include "node/record.h"
#include "node/slot/slot.h"

namespace space::node {

class SandboxLife {
 public:
  enum class Phase : std::uint8_t { kStarting, kRunning, kStopping, kGone };

  // How it ended, when it did so by itself after it had been running.
  struct Ending {
    std::string reason;
    std::string detail;
  };

  // A new sandbox: nothing of it exists yet.
  SandboxLife(Environment& environment, SandboxRecord record, vmm::MachineSpec spec,
              std::chrono::milliseconds limit);
  // One whose record was found. Adopted unless its record says stopping.
  SandboxLife(Environment& environment, SandboxRecord record);
  SandboxLife(const SandboxLife&) = delete;
  SandboxLife& operator=(const SandboxLife&) = delete;

  // Its whole life. Runs once, in the agent's scope; when it is cancelled the machine stays as it is.
  async::Task<void> run();

  // Ends it from whatever state; with a grace the guest is asked first.
  void stop(std::chrono::milliseconds grace);
  async::Task<void> wait_started();
  // False when `deadline` came first.
  async::Task<bool> wait_gone(std::chrono::steady_clock::time_point deadline);

  void on_link_event(const LinkEvent& event);
  // link has lost what it knew: give it the sockets again.
  async::Task<void> reattach();

  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] const SandboxRecord& record() const { return record_; }
  [[nodiscard]] SandboxInfo info() const;
  [[nodiscard]] std::uint64_t memory_bytes() const {
    return record_.resources.memory_bytes + record_.overhead_bytes;
  }
  // Why it never ran. Set once it is past starting.
  [[nodiscard]] const Result<void>& start_outcome() const { return start_outcome_; }
  [[nodiscard]] const std::optional<Ending>& ending() const { return ending_; }
  [[nodiscard]] const std::string& console_tail() const { return console_tail_; }
  [[nodiscard]] bool attached() const { return attached_; }

 private:
  async::Task<Result<void>> bring_up();
  async::Task<Result<void>> adopt();
  async::Task<Result<void>> attach_and_wait(std::chrono::steady_clock::time_point deadline);
  async::Task<Result<void>> attach_once(std::chrono::milliseconds limit);
  async::Task<Result<void>> until_stopped(async::Task<Result<void>> work);
  async::Task<void> exited();
  async::Task<Result<void>> exit_as_error();
  async::Task<void> stop_requested();
  async::Task<void> watch_running();
  async::Task<void> ask_guest_to_end();
  async::Task<void> explain_exit();
  async::Task<void> end();
  async::Task<void> remove_everything();
  void set_phase(Phase phase);

  Environment& environment_;
  SandboxRecord record_;
  vmm::MachineSpec spec_;
  std::chrono::milliseconds limit_;
  slot::Slot slot_;
  bool found_ = false;
  Phase phase_ = Phase::kStarting;
  Result<void> start_outcome_;
  bool attached_ = false;
  bool qmp_closed_ = false;
  bool stop_requested_ = false;
  std::chrono::milliseconds grace_{0};
  std::optional<Ending> hint_;  // what link saw coming
  std::optional<Ending> ending_;
  std::string console_tail_;
  std::optional<slot::JailProcess> jail_;  // only in the process that started it
  os::Fd pidfd_;
  async::Event changed_;
};

}  // namespace space::node
