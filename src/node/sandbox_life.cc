// SPDX-License-Identifier: Apache-2.0
#include "node/sandbox_life.h"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "node/crash_point.h"
#include "node/make_machine.h"

namespace space::node {
namespace asio = boost::asio;
using asio::experimental::awaitable_operators::operator||;

namespace {

// An adopted sandbox was running before; its daemon needs a moment at most, link perhaps longer to be
// started.
constexpr auto kAdoptLimit = std::chrono::seconds(30);
// How long link's word about the end may lag behind the end itself.
constexpr auto kHintPatience = std::chrono::milliseconds(500);
constexpr auto kAttachLimit = std::chrono::seconds(15);
constexpr auto kRetryAttach = std::chrono::milliseconds(50);
constexpr auto kRetryRemoval = std::chrono::seconds(2);

// link is restarting or busy with an older attachment: worth another try. What it says about the guest is
// final.
bool is_about_link_itself(const Error& error) {
  return error.reason.starts_with("rpc.") || error.reason == "link.no_such_sandbox" ||
         error.reason == "link.sandbox_gone";
}

std::chrono::milliseconds time_left(std::chrono::steady_clock::time_point deadline) {
  auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}

}  // namespace

SandboxLife::SandboxLife(Environment& environment, SandboxRecord record, vmm::MachineSpec spec,
                         std::chrono::milliseconds limit)
    : environment_(environment),
      record_(std::move(record)),
      spec_(std::move(spec)),
      limit_(limit),
      slot_{record_.sandbox, environment.home_of(record_.sandbox), record_.uid},
      changed_(environment.executor) {}

SandboxLife::SandboxLife(Environment& environment, SandboxRecord record)
    : SandboxLife(environment, std::move(record), {}, kAdoptLimit) {
  found_ = true;
}

SandboxInfo SandboxLife::info() const {
  SandboxInfo info;
  info.sandbox = record_.sandbox;
  info.session = record_.session;
  info.tenant = record_.tenant;
  info.generation = record_.generation;
  info.state = phase_ == Phase::kStarting  ? SandboxInfo::State::kStarting
               : phase_ == Phase::kRunning ? SandboxInfo::State::kRunning
                                           : SandboxInfo::State::kStopping;
  info.resources = record_.resources;
  info.template_name = record_.template_name;
  info.backend = record_.backend;
  info.acceleration = record_.acceleration;
  if (record_.process) info.vmm_pid = record_.process->pid;
  info.started = record_.started;
  info.kernel_boot_us = record_.kernel_boot_us;
  info.adopted = found_;
  return info;
}

void SandboxLife::set_phase(Phase phase) {
  phase_ = phase;
  changed_.notify_all();
}

void SandboxLife::stop(std::chrono::milliseconds grace) {
  // A second request without grace ends the first one's.
  grace_ = stop_requested_ ? std::min(grace_, grace) : grace;
  stop_requested_ = true;
  changed_.notify_all();
}

async::Task<void> SandboxLife::wait_started() {
  while (phase_ == Phase::kStarting) co_await changed_.wait();
}

async::Task<bool> SandboxLife::wait_gone(std::chrono::steady_clock::time_point deadline) {
  while (phase_ != Phase::kGone) {
    if (!co_await changed_.wait_until(deadline) && phase_ != Phase::kGone) co_return false;
  }
  co_return true;
}

async::Task<void> SandboxLife::stop_requested() {
  while (!stop_requested_) co_await changed_.wait();
}

async::Task<void> SandboxLife::exited() {
  asio::posix::stream_descriptor watcher(environment_.executor, ::dup(pidfd_.get()));
  co_await watcher.async_wait(asio::posix::stream_descriptor::wait_read, asio::use_awaitable);
}

async::Task<Result<void>> SandboxLife::exit_as_error() {
  co_await exited();
  std::string printed = jail_ ? jail_->printed() : std::string();
  co_return make_error(
      Code::kInternal, "node.vmm_failed",
      "the machine ended before its daemon answered" + (printed.empty() ? printed : ": " + printed));
}

// ---- the whole ----

async::Task<void> SandboxLife::run() {
  start_outcome_ = co_await until_stopped(found_ ? adopt() : bring_up());
  if (start_outcome_.ok()) {
    environment_.log.info(
        found_ ? "sandbox_adopted" : "sandbox_running",
        {{"sandbox", record_.sandbox.str()}, {"pid", std::to_string(record_.process->pid)}});
    set_phase(Phase::kRunning);
    co_await watch_running();
  } else {
    environment_.log.warning(
        found_ ? "sandbox_not_adopted" : "sandbox_not_started",
        {{"sandbox", record_.sandbox.str()}, {"error", start_outcome_.error().describe()}});
  }
  set_phase(Phase::kStopping);
  co_await end();
  set_phase(Phase::kGone);
}

async::Task<Result<void>> SandboxLife::until_stopped(async::Task<Result<void>> work) {
  auto outcome = co_await (std::move(work) || stop_requested());
  if (outcome.index() == 0) co_return std::get<0>(std::move(outcome));
  co_return make_error(Code::kAborted, "node.destroyed", "the sandbox was destroyed while it started");
}

// ---- starting ----

async::Task<Result<void>> SandboxLife::bring_up() {
  auto deadline = std::chrono::steady_clock::now() + limit_;
  SPACE_CO_TRY(slot::JailProcess jail, co_await environment_.pool.run([this, record = record_] {
    return make_machine(environment_, record, spec_, slot_);
  }));
  record_.process = jail.identity();
  pidfd_ = jail.take_pidfd();
  jail_ = std::move(jail);
  SPACE_CO_CHECK_OK(co_await attach_and_wait(deadline));
  SPACE_CRASH_POINT("create.ready");
  record_.state = SandboxRecord::State::kRunning;
  SPACE_CO_CHECK_OK(
      co_await environment_.pool.run([this, record = record_] { return save_record(slot_.home, record); }));
  SPACE_CRASH_POINT("create.done");
  co_return Result<void>();
}

async::Task<Result<void>> SandboxLife::adopt() {
  if (!record_.process) co_return make_error(Code::kAborted, "node.not_adopted", "it had no process yet");
  // Also for one that is only to be ended: then its death can be awaited.
  SPACE_CO_TRY(pidfd_, process::open_process(*record_.process));
  if (record_.state == SandboxRecord::State::kStopping) {
    co_return make_error(Code::kAborted, "node.not_adopted", "it was already being destroyed");
  }
  SPACE_CO_CHECK_OK(co_await attach_and_wait(std::chrono::steady_clock::now() + limit_));
  record_.state = SandboxRecord::State::kRunning;
  co_return co_await environment_.pool.run(
      [this, record = record_] { return save_record(slot_.home, record); });
}

async::Task<Result<void>> SandboxLife::attach_once(std::chrono::milliseconds limit) {
  SPACE_CO_TRY(auto sockets, slot::connect_to_slot(slot_));
  co_return co_await environment_.link.attach(record_.sandbox, record_.generation, std::move(sockets),
                                              std::min<std::chrono::milliseconds>(limit, kAttachLimit));
}

async::Task<Result<void>> SandboxLife::attach_and_wait(std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    Result<void> failed;
    auto attempt = co_await (attach_once(time_left(deadline)) || exit_as_error());
    failed = attempt.index() == 0 ? std::get<0>(std::move(attempt)) : std::get<1>(std::move(attempt));
    if (failed.ok()) {
      SPACE_CRASH_POINT("create.attached");
      attached_ = true;
      auto waiting =
          co_await (environment_.link.wait_ready(record_.sandbox, time_left(deadline)) || exit_as_error());
      if (waiting.index() == 0 && std::get<0>(waiting).ok()) {
        record_.kernel_boot_us = std::get<0>(waiting)->kernel_boot_us;
        co_return Result<void>();
      }
      failed =
          waiting.index() == 0 ? Result<void>(std::get<0>(waiting).error()) : std::get<1>(std::move(waiting));
      attached_ = false;
    }
    if (std::chrono::steady_clock::now() + kRetryAttach >= deadline) {
      co_return make_error(Code::kDeadlineExceeded, "node.create_deadline",
                           "the sandbox was not ready in time: " + failed.error().message);
    }
    if (!is_about_link_itself(failed.error())) co_return failed;
    co_await async::sleep_for(kRetryAttach);
  }
}

// ---- running ----

async::Task<void> SandboxLife::watch_running() {
  auto outcome = co_await (exited() || stop_requested());
  if (outcome.index() == 0) co_await explain_exit();
}

void SandboxLife::on_link_event(const LinkEvent& event) {
  switch (event.kind) {
    case LinkEventKind::kGuestShutdown:
      hint_ = Ending{"node.guest_shutdown", event.detail};
      break;
    case LinkEventKind::kGuestPanicked:
      hint_ = Ending{"node.guest_panicked", event.detail};
      break;
    case LinkEventKind::kQmpClosed:
      qmp_closed_ = true;
      break;
    case LinkEventKind::kChannelClosed:
    case LinkEventKind::kProtocolError:
    case LinkEventKind::kBlockIoError:
      // The guest is what suffers; its session decides what to do about it.
      environment_.log.warning("guest_trouble",
                               {{"sandbox", record_.sandbox.str()}, {"detail", event.detail}});
      break;
  }
  changed_.notify_all();
}

async::Task<void> SandboxLife::reattach() {
  auto again = co_await attach_once(kAttachLimit);
  if (again.ok()) {
    environment_.log.info("sandbox_reattached", {{"sandbox", record_.sandbox.str()}});
  } else {
    environment_.log.warning("sandbox_not_reattached",
                             {{"sandbox", record_.sandbox.str()}, {"error", again.error().describe()}});
  }
}

async::Task<void> SandboxLife::explain_exit() {
  auto patience = std::chrono::steady_clock::now() + kHintPatience;
  while (attached_ && !hint_ && !qmp_closed_) {
    if (!co_await changed_.wait_until(patience)) break;
  }
  process::Exit exit = process::reap(pidfd_.get());
  if (environment_.cgroups.out_of_memory(record_.sandbox)) {
    ending_ = Ending{"node.vmm_killed", "the machine used more memory than the sandbox's limit"};
  } else if (exit.known && exit.signal != 0) {
    ending_ = Ending{"node.vmm_killed", "the machine was ended by signal " + std::to_string(exit.signal)};
  } else if (hint_) {
    ending_ = hint_;
  } else {
    std::string printed = jail_ ? jail_->printed() : std::string();
    std::string status = exit.known ? "with status " + std::to_string(exit.exit_code)
                                    : "with a status that only its parent knew";
    ending_ = Ending{"node.vmm_exited",
                     "the machine ended " + status + (printed.empty() ? printed : ": " + printed)};
  }
}

// ---- ending ----

async::Task<void> SandboxLife::ask_guest_to_end() {
  auto deadline = std::chrono::steady_clock::now() + grace_;
  auto asked = co_await environment_.link.power_down(record_.sandbox);
  if (!asked.ok()) co_return;
  // A second request without grace cuts this short.
  while (grace_.count() > 0 && std::chrono::steady_clock::now() < deadline) {
    auto outcome = co_await (exited() || changed_.wait_until(deadline));
    if (outcome.index() == 0) co_return;
  }
}

async::Task<void> SandboxLife::end() {
  if (stop_requested_ && grace_.count() > 0 && attached_ && pidfd_) co_await ask_guest_to_end();
  record_.state = SandboxRecord::State::kStopping;
  auto saved =
      co_await environment_.pool.run([this, record = record_] { return save_record(slot_.home, record); });
  // Without a directory there is nothing to remove; other failures show again below.
  saved.ignore("the removal decides");
  SPACE_CRASH_POINT("destroy.begun");
  // First the machine, which is what costs and what may do harm; then link, which hears of it by itself.
  auto killed = co_await environment_.pool.run(
      [this] { return kill_machine(environment_, record_.sandbox, pidfd_.get()); });
  killed.ignore("the removal tries again until it has worked");
  if (attached_) {
    auto tail = co_await environment_.link.detach(record_.sandbox);
    if (tail.ok()) console_tail_ = std::move(*tail);
    attached_ = false;
  }
  co_await remove_everything();
  environment_.log.info("sandbox_gone", {{"sandbox", record_.sandbox.str()},
                                         {"reason", ending_ ? ending_->reason : std::string("asked")}});
}

async::Task<void> SandboxLife::remove_everything() {
  for (;;) {
    auto removed = co_await environment_.pool.run(
        [this] { return unmake_machine(environment_, record_.sandbox, pidfd_.get()); });
    if (pidfd_) process::reap(pidfd_.get());
    if (removed.ok()) co_return;
    environment_.log.error("sandbox_not_removed",
                           {{"sandbox", record_.sandbox.str()}, {"error", removed.error().describe()}});
    co_await async::sleep_for(kRetryRemoval);
  }
}

}  // namespace space::node
