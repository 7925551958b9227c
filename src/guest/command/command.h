// SPDX-License-Identifier: Apache-2.0
#pragma once
// One command: its process tree, its streams, how it ended. Lives on after its end until the table forgets
// it.
//
// At most one CommandViewer takes the output; without one it stays in the rings. For the loop's thread,
// except where said. Resource type, shared: a pool thread that starts the process keeps it alive.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "guest/command/environment.h"
#include "guest/command/input_stream.h"
#include "guest/command/output_stream.h"
#include "guest/command/process_tree.h"
#include "guest/command/pty.h"
#include "guest/core/worker_pool.h"

namespace space::guest {

struct CommandRequest {
  std::string id;
  std::vector<std::string> argv;  // not empty
  EnvVars env;
  std::string cwd;
  std::string user;
  std::optional<PtySize> pty;
  std::string term;
  bool open_stdin = false;
  std::chrono::milliseconds timeout{0};  // 0: none
};

struct ExitRecord {
  int exit_code = -1;  // -1 when killed by a signal
  int signal = 0;
  bool timed_out = false;
  bool out_of_memory = false;
  std::chrono::milliseconds duration{0};
};

class CommandViewer {
 public:
  virtual ~CommandViewer() = default;
  virtual void on_started(pid_t pid) = 0;
  // It couldn't be started; the command is gone from the table.
  virtual void on_start_failed(const Error& error) = 0;
  // There is output to take, or the command has ended.
  virtual void on_progress() = 0;
  virtual void on_input_consumed(std::size_t bytes) = 0;
  // Another viewer took over.
  virtual void on_replaced() = 0;
};

struct CommandServices {
  Loop& loop;
  WorkerPool& pool;
  ProcessTrees& trees;
  OutputBudget& budget;
};

class Command : public std::enable_shared_from_this<Command> {
 public:
  static constexpr int kStreams = 2;  // 0 stdout (or the terminal), 1 stderr
  // After the leader has ended, streams that something else still holds open are followed until they have
  // been quiet for this long, and at most kMaxLinger. What comes later stays in the rings.
  static constexpr std::chrono::milliseconds kLinger{250};
  static constexpr std::chrono::milliseconds kMaxLinger{2000};

  // `ended` is called once, when the command has ended or could not be started (then failed() is true).
  Command(CommandServices services, CommandRequest request, std::function<void(Command&)> ended);
  ~Command();

  // Opens streams and starts the process on a pool thread; the viewer hears of the outcome.
  void start();

  [[nodiscard]] const CommandRequest& request() const { return request_; }
  [[nodiscard]] pid_t pid() const { return pid_.load(); }
  [[nodiscard]] bool running() const { return !exit_.has_value(); }
  // Is the leader still to be collected?
  [[nodiscard]] bool awaits_leader() const { return !status_ && !exit_; }
  [[nodiscard]] bool failed() const { return failed_; }
  // Set once everything that the command wrote before its end is in the rings.
  [[nodiscard]] const std::optional<ExitRecord>& exit() const { return exit_; }
  [[nodiscard]] std::chrono::system_clock::time_point started_at() const { return started_wall_; }
  OutputStream& output(int stream) { return *outputs_[stream]; }

  // Replaces the viewer, who begins at the given offsets (or later, see OutputStream::watch_from).
  void set_viewer(CommandViewer& viewer, std::uint64_t stdout_from, std::uint64_t stderr_from);
  // Nobody watches any more; a no-op unless `viewer` is the present one.
  void drop_viewer(CommandViewer& viewer);
  [[nodiscard]] bool watched() const { return viewer_ != nullptr; }

  void write_input(ByteView bytes);
  void end_input();
  void resize(PtySize size);
  // To the foreground group of the terminal, or the leader's group.
  void signal_group(int signal);
  // To the whole tree; SIGKILL reaches what is being forked, too, and a command that is only being started.
  void signal_tree(int signal);
  // waitpid() gave the leader's status.
  void reaped(int status);
  // Frees what an ended command occupies in the kernel; false while something of it still runs.
  bool try_release_tree() { return !tree_ || tree_->try_release(); }

 private:
  struct Launch;

  Result<void> open_streams(Launch& launch);
  void on_spawned(Launch& launch);
  void fail(const Error& error);
  void on_output();
  void consider_end();
  void finish();

  CommandServices services_;
  CommandRequest request_;
  std::function<void(Command&)> ended_;
  CommandViewer* viewer_ = nullptr;
  std::unique_ptr<ProcessTree> tree_;
  std::unique_ptr<OutputStream> outputs_[kStreams];
  InputStream input_;
  os::Fd terminal_;            // PTY master, for ioctls
  std::atomic<pid_t> pid_{0};  // set by the kernel while a pool thread starts the process
  bool spawned_ = false;
  bool failed_ = false;
  bool timed_out_ = false;
  int early_signal_ = 0;  // arrived before the process existed
  bool early_kill_ = false;
  std::optional<int> status_;
  std::optional<ExitRecord> exit_;
  Loop::TimerId timeout_timer_ = 0;
  Loop::TimerId linger_timer_ = 0;
  std::chrono::system_clock::time_point started_wall_;
  Instant started_;
  Instant leader_ended_;
  std::chrono::milliseconds duration_{0};
  bool out_of_memory_ = false;
};

}  // namespace space::guest
