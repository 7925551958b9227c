// SPDX-License-Identifier: Apache-2.0
#include "guest/command/command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "guest/command/spawn.h"

namespace space::guest {
namespace {

using std::chrono::milliseconds;

constexpr int kPipeBytes = 256 << 10;

// A pipe whose end `ours` (0 read, 1 write) doesn't block.
Result<std::pair<os::Fd, os::Fd>> make_pipe(int ours) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error(errno, "guest.spawn_failed", "make a pipe");
  std::pair<os::Fd, os::Fd> pipe(ends[0], ends[1]);
  ::fcntl(ends[0], F_SETPIPE_SZ, kPipeBytes);  // only for speed
  if (::fcntl(ends[ours], F_SETFL, O_NONBLOCK) != 0)
    return errno_error(errno, "guest.spawn_failed", "make a pipe");
  return pipe;
}

}  // namespace

// What a pool thread needs to start the process. Shared between the job and its completion.
struct Command::Launch {
  std::shared_ptr<Command> command;
  SpawnPlan plan;
  os::Fd ends[3];  // the child's side of the standard streams; ends[0] may be absent: /dev/null
  Result<pid_t> outcome;

  Result<pid_t> run();
};

Result<pid_t> Command::Launch::run() {
  const CommandRequest& request = command->request_;
  SPACE_TRY(plan.user, find_user(request.user));
  std::string term = !request.pty ? "" : request.term.empty() ? "xterm-256color" : request.term;
  plan.environment = make_environment(plan.user, term, request.env);
  std::string mark = command->services_.trees.mark_of(*command->tree_);
  if (!mark.empty()) plan.environment.push_back(std::move(mark));
  plan.argv = request.argv;
  plan.candidates = program_candidates(request.argv.front(), environment_value(plan.environment, "PATH"));
  plan.cwd = request.cwd;
  plan.home = plan.user.home;
  plan.cgroup = command->tree_->cgroup();
  if (request.pty) {
    constexpr gid_t kTtyGroup = 5;  // the same in every distribution
    // Not permitted to an ordinary user, who then owns the terminal anyway.
    if (::fchown(ends[0].get(), plan.user.uid, kTtyGroup) == 0) ::fchmod(ends[0].get(), 0620);
    plan.controlling_terminal = true;
  } else if (!ends[0]) {
    ends[0] = os::Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!ends[0]) return errno_error(errno, "guest.spawn_failed", "open /dev/null");
  }
  for (int i = 0; i < 3; ++i) plan.stdio[i] = ends[request.pty ? 0 : i].get();
  return spawn(plan, command->pid_);
}

Command::Command(CommandServices services, CommandRequest request, std::function<void(Command&)> ended)
    : services_(services),
      request_(std::move(request)),
      ended_(std::move(ended)),
      input_(services.loop, [this](std::size_t bytes) {
        if (viewer_ != nullptr) viewer_->on_input_consumed(bytes);
      }) {
  for (auto& output : outputs_) {
    output = std::make_unique<OutputStream>(services.loop, services.budget, [this] { on_output(); });
  }
}

Command::~Command() {
  viewer_ = nullptr;
  services_.loop.cancel(timeout_timer_);
  services_.loop.cancel(linger_timer_);
}

Result<void> Command::open_streams(Launch& launch) {
  if (request_.pty) {
    SPACE_TRY(Pty pty, open_pty(*request_.pty));
    os::Fd input(::fcntl(pty.master.get(), F_DUPFD_CLOEXEC, 3));
    os::Fd output(::fcntl(pty.master.get(), F_DUPFD_CLOEXEC, 3));
    if (!input || !output) return errno_error(errno, "guest.no_terminal", "open a terminal");
    terminal_ = std::move(pty.master);
    launch.ends[0] = std::move(pty.terminal);
    input_.open(std::move(input));
    outputs_[0]->open(std::move(output));
    return {};
  }
  if (request_.open_stdin) {
    SPACE_TRY(auto pipe, make_pipe(1));
    launch.ends[0] = std::move(pipe.first);
    input_.open(std::move(pipe.second));
  }
  for (int stream = 0; stream < kStreams; ++stream) {
    SPACE_TRY(auto pipe, make_pipe(0));
    launch.ends[stream + 1] = std::move(pipe.second);
    outputs_[stream]->open(std::move(pipe.first));
  }
  return {};
}

void Command::start() {
  started_wall_ = std::chrono::system_clock::now();
  started_ = std::chrono::steady_clock::now();
  auto launch = std::make_shared<Launch>();
  launch->command = shared_from_this();
  if (auto opened = open_streams(*launch); !opened.ok()) return fail(opened.error());
  auto tree = services_.trees.make();
  if (!tree.ok()) return fail(tree.error());
  tree_ = std::move(tree).value();
  services_.pool.submit([launch] { launch->outcome = launch->run(); },
                        [launch] { launch->command->on_spawned(*launch); });
}

void Command::on_spawned(Launch& launch) {
  for (auto& end : launch.ends) end.reset();
  if (!launch.outcome.ok()) return fail(launch.outcome.error());
  spawned_ = true;
  tree_->started(*launch.outcome);
  if (viewer_ != nullptr) viewer_->on_started(*launch.outcome);
  if (status_) return reaped(*status_);
  if (early_kill_) tree_->kill_all();
  if (early_signal_ != 0) signal_group(early_signal_);
  if (request_.timeout.count() > 0) {
    timeout_timer_ = services_.loop.after(request_.timeout, [this] {
      timeout_timer_ = 0;
      timed_out_ = true;
      tree_->kill_all();
    });
  }
}

void Command::fail(const Error& error) {
  failed_ = true;
  exit_.emplace();
  for (auto& output : outputs_) output->close();
  input_.close();
  auto keep = shared_from_this();  // `ended` removes it from the table
  if (CommandViewer* viewer = std::exchange(viewer_, nullptr)) viewer->on_start_failed(error);
  ended_(*this);
}

void Command::set_viewer(CommandViewer& viewer, std::uint64_t stdout_from, std::uint64_t stderr_from) {
  if (CommandViewer* old = std::exchange(viewer_, &viewer); old != nullptr && old != &viewer)
    old->on_replaced();
  outputs_[0]->watch_from(stdout_from);
  outputs_[1]->watch_from(stderr_from);
}

void Command::drop_viewer(CommandViewer& viewer) {
  if (viewer_ != &viewer) return;
  viewer_ = nullptr;
  for (auto& output : outputs_) output->unwatch();
}

void Command::write_input(ByteView bytes) {
  if (input_.open()) return input_.write(bytes);
  if (viewer_ != nullptr) viewer_->on_input_consumed(bytes.size());  // /dev/null, or it was closed
}

void Command::end_input() {
  if (!request_.pty) return input_.finish([] { return true; });
  input_.finish([this] {
    // A terminal has no end: what a person would type says it.
    if (auto byte = end_of_input_byte(terminal_.get())) input_.write(ByteView(&*byte, 1));
    return false;
  });
}

void Command::resize(PtySize size) {
  if (terminal_) resize_pty(terminal_.get(), size);
}

void Command::signal_group(int signal) {
  if (status_) return;  // the number may belong to somebody else by now
  if (!spawned_) {
    early_signal_ = signal;
    return;
  }
  pid_t group = terminal_ ? foreground_group(terminal_.get()) : 0;
  ::kill(group > 0 ? -group : -pid_.load(), signal);
}

void Command::signal_tree(int signal) {
  if (!tree_) return;
  if (!spawned_) early_kill_ |= signal == SIGKILL;
  if (signal == SIGKILL) {
    tree_->kill_all();
  } else {
    tree_->signal_all(signal);
  }
}

void Command::reaped(int status) {
  status_ = status;
  if (!spawned_) return;  // on_spawned() comes back to it
  services_.loop.cancel(std::exchange(timeout_timer_, 0));
  leader_ended_ = std::chrono::steady_clock::now();
  duration_ = std::chrono::duration_cast<milliseconds>(leader_ended_ - started_);
  out_of_memory_ = tree_->out_of_memory();
  if (timed_out_) tree_->kill_all();
  // What the leader wrote is at most a pipe's content; another writer of the pipe must not hold us here.
  for (auto& output : outputs_) {
    for (int reads = 0; reads < 16 && output->drain_once(); ++reads) {
    }
  }
  consider_end();
  if (viewer_ != nullptr) viewer_->on_progress();
}

void Command::on_output() {
  if (status_ && !exit_) consider_end();
  if (viewer_ != nullptr) viewer_->on_progress();
}

// The leader has gone: ended at once when its streams have, else when they have been quiet for a while.
void Command::consider_end() {
  if (!spawned_ || !status_ || exit_) return;
  services_.loop.cancel(std::exchange(linger_timer_, 0));
  bool at_end = outputs_[0]->at_end() && outputs_[1]->at_end();
  bool blocked_now = outputs_[0]->blocked() || outputs_[1]->blocked();
  if (at_end || (!blocked_now && std::chrono::steady_clock::now() - leader_ended_ > kMaxLinger))
    return finish();
  linger_timer_ = services_.loop.after(kLinger, [this] {
    linger_timer_ = 0;
    bool blocked = outputs_[0]->blocked() || outputs_[1]->blocked();
    if (blocked) return consider_end();  // there is more: the watcher is slow
    finish();
    if (viewer_ != nullptr) viewer_->on_progress();
  });
}

void Command::finish() {
  ExitRecord record;
  record.exit_code = WIFEXITED(*status_) ? WEXITSTATUS(*status_) : -1;
  record.signal = WIFSIGNALED(*status_) ? WTERMSIG(*status_) : 0;
  record.timed_out = timed_out_;
  record.out_of_memory = out_of_memory_;
  record.duration = duration_;
  exit_ = record;
  input_.close();
  if (request_.pty && outputs_[0]->at_end()) terminal_.reset();
  ended_(*this);
}

}  // namespace space::guest
