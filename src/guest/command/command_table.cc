// SPDX-License-Identifier: Apache-2.0
#include "guest/command/command_table.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

#include "lib/base/bytes.h"

namespace space::guest {
namespace {
constexpr std::chrono::milliseconds kSweepDelay{50};
}

CommandTable::CommandTable(Loop& loop, WorkerPool& pool, ProcessTrees& trees, std::size_t output_bytes)
    : budget_(output_bytes, [this] { return drop_some_output(); }), services_{loop, pool, trees, budget_} {}

Result<std::shared_ptr<Command>> CommandTable::start(CommandRequest request, CommandViewer& viewer) {
  if (find(request.id)) {
    return Error{Code::kAlreadyExists, "guest.command_exists",
                 "the sandbox has a command with the id " + escape(request.id, 64) + " already",
                 "command_id"};
  }
  if (ending_) return make_error(Code::kUnavailable, "guest.shutting_down", "the sandbox is being shut down");
  if (running_ >= kMaxRunning) {
    return make_error(
        Code::kResourceExhausted, "guest.too_many_commands",
        std::to_string(kMaxRunning) + " commands run in the sandbox, which is the limit; end some");
  }
  auto command =
      std::make_shared<Command>(services_, std::move(request), [this](Command& ended) { on_ended(ended); });
  commands_.push_back(command);
  ++running_;
  command->set_viewer(viewer, 0, 0);
  command->start();
  return command;
}

std::shared_ptr<Command> CommandTable::find(std::string_view id) const {
  for (const auto& command : commands_) {
    if (command->request().id == id) return command;
  }
  return nullptr;
}

void CommandTable::on_ended(Command& command) {
  --running_;
  auto it = std::find_if(commands_.begin(), commands_.end(),
                         [&](const auto& held) { return held.get() == &command; });
  unswept_.push_back(*it);
  if (!sweep_planned_) {
    sweep_planned_ = true;
    services_.loop.after(kSweepDelay, [this] { sweep(); });
  }
  if (command.failed()) {
    commands_.erase(it);
    return;
  }
  ++ended_;
  if (ended_ <= kMaxEnded) return;
  // The oldest that nobody looks at; one that is being read goes a little later.
  auto oldest = std::find_if(commands_.begin(), commands_.end(), [&](const auto& held) {
    return !held->running() && !held->watched() && held.get() != &command;
  });
  if (oldest == commands_.end()) return;
  commands_.erase(oldest);
  --ended_;
}

void CommandTable::reap() {
  services_.loop.run_posted();  // commands whose start has just been reported
  for (;;) {
    int status = 0;
    pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) break;
    for (const auto& command : commands_) {
      if (command->pid() != pid || !command->awaits_leader()) continue;
      command->reaped(status);
      break;  // `commands_` may have changed
    }
  }
  if (!unswept_.empty() && !sweep_planned_) {
    sweep_planned_ = true;
    services_.loop.after(kSweepDelay, [this] { sweep(); });
  }
}

// Off the path of a command's end, where a round trip would wait for it.
void CommandTable::sweep() {
  sweep_planned_ = false;
  std::erase_if(unswept_, [](const auto& command) { return command->try_release_tree(); });
}

void CommandTable::end_all() {
  ending_ = true;
  for (const auto& command : commands_) command->signal_tree(SIGKILL);
  for (const auto& command : unswept_) command->signal_tree(SIGKILL);
}

bool CommandTable::drop_some_output() {
  auto drop = [this](Command& command) {
    if (command.running() || command.watched()) return false;
    std::size_t before = budget_.used();
    for (int stream = 0; stream < Command::kStreams; ++stream) command.output(stream).drop_output();
    return budget_.used() < before;
  };
  auto dropped = [&](const std::shared_ptr<Command>& command) { return drop(*command); };
  return std::any_of(unswept_.begin(), unswept_.end(), dropped) ||
         std::any_of(commands_.begin(), commands_.end(), dropped);
}

}  // namespace space::guest
