// SPDX-License-Identifier: Apache-2.0
#pragma once
// All commands, running and ended.
//
// An ended command (exit code and output) is kept until kMaxEnded newer ones have ended; nothing else makes
// it forgotten, but its output may go earlier when the rings' memory budget is used up. For the loop's
// thread.

#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "guest/command/command.h"

namespace space::guest {

class CommandTable {
 public:
  static constexpr std::size_t kMaxRunning = 128;
  static constexpr std::size_t kMaxEnded = 256;

  // `output_bytes`: memory for the output of all commands together.
  CommandTable(Loop& loop, WorkerPool& pool, ProcessTrees& trees, std::size_t output_bytes);

  // Starts a command that `viewer` watches from its first byte. Errors: guest.command_exists,
  // guest.too_many_commands.
  Result<std::shared_ptr<Command>> start(CommandRequest request, CommandViewer& viewer);
  [[nodiscard]] std::shared_ptr<Command> find(std::string_view id) const;
  [[nodiscard]] const std::list<std::shared_ptr<Command>>& all() const { return commands_; }
  // Collects every child that has ended; call on SIGCHLD.
  void reap();
  // SIGKILL to every tree; no command is started after this.
  void end_all();

 private:
  void on_ended(Command& command);
  bool drop_some_output();
  void sweep();

  OutputBudget budget_;
  CommandServices services_;
  std::list<std::shared_ptr<Command>> commands_;  // in the order of their start
  std::size_t running_ = 0;
  std::size_t ended_ = 0;
  // Ended commands whose tree can't be released yet, also when the table has forgotten them.
  std::vector<std::shared_ptr<Command>> unswept_;
  bool sweep_planned_ = false;
  bool ending_ = false;
};

}  // namespace space::guest
