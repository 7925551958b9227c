// SPDX-License-Identifier: Apache-2.0
#include "supervise/supervisor.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <cstring>

#include "lib/base/size.h"

namespace space::supervise {
using async::Task;
using Clock = std::chrono::steady_clock;

struct Supervisor::Child {
  Service service;
  pid_t pid = 0;  // 0: not running
  int status = 0;
  LogFile log;
  LineSplitter lines;
  std::string last_line;  // the last that was worth showing: the reason of a death, perhaps
  std::deque<Clock::time_point> deaths;

  [[nodiscard]] const std::string& name() const { return service.spec.name; }
};

std::string describe_end(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    int number = WTERMSIG(wait_status);
    return "signal " + std::to_string(number) + " (" + ::strsignal(number) + ")";
  }
  return "exit code " + std::to_string(WEXITSTATUS(wait_status));
}

Supervisor::Supervisor(async::Loop& loop, std::vector<Service> services, std::string log_directory,
                       ChildrenFile remembered, Timing timing, std::function<void(const std::string&)> say)
    : loop_(loop),
      log_directory_(std::move(log_directory)),
      remembered_(std::move(remembered)),
      timing_(timing),
      say_(std::move(say)),
      child_signals_(loop, SIGCHLD),
      stop_signals_(loop, SIGTERM, SIGINT),
      changed_(loop.get_executor()),
      scope_(loop.get_executor()) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  for (auto& service : services) {
    auto log = LogFile::open(log_directory_ + "/" + service.spec.name + ".log");
    if (!log.ok()) {
      fatal_ = log.error();
      return;
    }
    children_.push_back(
        std::make_unique<Child>(Child{std::move(service), 0, 0, std::move(log).value(), {}, {}, {}}));
  }
}

Supervisor::~Supervisor() = default;

void Supervisor::remember() const {
  std::vector<pid_t> pids;
  for (const auto& child : children_) {
    if (child->pid != 0) pids.push_back(child->pid);
  }
  if (auto done = remembered_.write(pids); !done.ok()) say_(done.error().message);
}

Result<void> Supervisor::launch(Child& child) {
  SPACE_TRY(auto started, start_child(child.service.spec));
  child.pid = started.pid;
  remember();
  scope_.spawn(pump(child, std::move(started.output)));
  changed_.notify_all();
  return {};
}

Task<Result<void>> Supervisor::start() {
  if (fatal_) co_return *fatal_;
  scope_.spawn(reap());
  scope_.spawn(take_signals());
  for (auto& child : children_) {
    if (auto done = launch(*child); !done.ok()) {
      co_await stop(Ending::kAbrupt);
      co_return std::move(done).error();
    }
  }
  for (auto& child : children_) scope_.spawn(keep(*child));
  co_return Result<void>();
}

Task<Result<void>> Supervisor::wait() {
  while (!ending()) co_await changed_.wait();
  if (fatal_) co_return *fatal_;
  co_return Result<void>();
}

// Restarts one child as long as that makes sense.
Task<void> Supervisor::keep(Child& child) {
  auto pause = timing_.first_pause;
  for (;;) {
    auto began = Clock::now();
    while (child.pid != 0) co_await changed_.wait();
    if (stopping_) co_return;
    auto now = Clock::now();
    if (now - began > timing_.window) pause = timing_.first_pause;
    child.deaths.push_back(now);
    while (now - child.deaths.front() > timing_.window) child.deaths.pop_front();
    std::string how = child.name() + " ended with " + describe_end(child.status);
    if (child.deaths.size() >= timing_.max_deaths) {
      std::string last = child.last_line.empty() ? "" : "; it said last: " + child.last_line;
      fatal_ = make_error(Code::kInternal, "supervise.crash_loop",
                          how + " for the " + std::to_string(child.deaths.size()) + "th time within " +
                              format_duration(timing_.window) + "; giving up" + last + "; its log is " +
                              log_directory_ + "/" + child.name() + ".log");
      changed_.notify_all();
      co_return;
    }
    say_(how + "; restarting it in " + format_duration(pause));
    co_await async::sleep_for(pause);
    pause = std::min(pause * 2, timing_.longest_pause);
    if (stopping_) co_return;
    if (auto done = launch(child); !done.ok()) {
      say_(done.error().message);
      child.status = 127 << 8;
    }
  }
}

// Until every process that holds the child's output has ended.
Task<void> Supervisor::pump(Child& child, os::Fd output) {
  boost::asio::posix::stream_descriptor pipe(loop_, output.release());
  std::array<char, 16384> buffer{};
  boost::system::error_code error;
  for (;;) {
    std::size_t got = co_await pipe.async_read_some(
        boost::asio::buffer(buffer), boost::asio::redirect_error(boost::asio::use_awaitable, error));
    if (error) co_return;
    std::string_view bytes(buffer.data(), got);
    child.log.append(bytes);
    child.lines.feed(bytes, [&](std::string_view line) {
      if (auto shown = line_to_show(child.name(), line)) {
        say_(*shown);
        child.last_line = *shown;
      }
    });
  }
}

Task<void> Supervisor::reap() {
  boost::system::error_code error;
  for (;;) {
    co_await child_signals_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, error));
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      for (auto& child : children_) {
        if (child->pid != pid) continue;
        child->pid = 0;
        child->status = status;
      }
    }
    changed_.notify_all();
  }
}

Task<void> Supervisor::take_signals() {
  boost::system::error_code error;
  for (;;) {
    int number =
        co_await stop_signals_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, error));
    if (asked_to_stop_) {
      hurry_ = true;
    } else {
      say_(std::string("stopping on ") + ::strsignal(number) + "; a second signal ends everything at once");
    }
    asked_to_stop_ = true;
    changed_.notify_all();
  }
}

Task<void> Supervisor::end(Child& child, Ending how) {
  if (child.pid == 0) co_return;
  if (how == Ending::kGraceful) {
    ::kill(child.pid, SIGTERM);
    auto deadline = Clock::now() + child.service.grace;
    while (child.pid != 0 && !hurry_) {
      if (!co_await changed_.wait_until(deadline) && child.pid != 0) {
        say_(child.name() + " did not stop within " + format_duration(child.service.grace) +
             " and is killed");
        break;
      }
    }
  }
  if (child.pid != 0) ::kill(child.pid, SIGKILL);
  while (child.pid != 0) co_await changed_.wait();
}

// Descendants that outlived the services: what the node should have ended.
Task<void> Supervisor::end_leftovers() {
  auto deadline = Clock::now() + timing_.leftover_grace;
  bool said = false;
  for (;;) {
    auto left = living_children(::getpid());
    if (left.empty()) co_return;
    if (Clock::now() > deadline) {
      for (pid_t pid : left) {
        if (!said) say_("process " + std::to_string(pid) + " was left over and is killed");
        ::kill(pid, SIGKILL);
      }
      if (said && Clock::now() > deadline + timing_.leftover_grace) co_return;
      said = true;
    }
    co_await async::sleep_for(std::chrono::milliseconds(20));
  }
}

Task<void> Supervisor::stop(Ending how) {
  stopping_ = true;
  changed_.notify_all();
  for (auto child = children_.rbegin(); child != children_.rend(); ++child) co_await end(**child, how);
  if (how == Ending::kGraceful) co_await end_leftovers();
  remember();
  // What the pipes still hold is read before they are given up: the last words of the dead.
  co_await async::sleep_for(std::chrono::milliseconds(1));
  co_await scope_.stop();
}

}  // namespace space::supervise
