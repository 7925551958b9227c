// SPDX-License-Identifier: Apache-2.0
#include "guest/command/spawn.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "guest/command/clone_child.h"
#include "lib/base/bytes.h"

namespace space::guest {
namespace {

enum class Step : int { kNone, kPrepare, kCredentials, kDirectory, kExecute, kInterpreter };

// Everything the child touches, allocated before it exists.
struct Child {
  const SpawnPlan* plan;
  std::vector<char*> argv;
  std::vector<char*> environment;
  std::vector<char*> shell_argv;  // for a script without an interpreter line, as execvp(3) does
  bool change_user;
  // Written by the child, read when it has gone or executed.
  volatile Step failed = Step::kNone;
  volatile int error = 0;
};

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const auto& text : strings)
    out.push_back(const_cast<char*>(text.c_str()));  // SAFETY: execve only reads
  out.push_back(nullptr);
  return out;
}

// A sanitizer's bookkeeping of a foreign stack would stay behind in the daemon.
#define SPACE_RUNS_IN_CHILD [[clang::no_sanitize("address", "undefined", "thread")]]

[[noreturn]] SPACE_RUNS_IN_CHILD void give_up(Child& child, Step step) {
  child.failed = step;
  child.error = errno;
  ::_exit(127);
}

SPACE_RUNS_IN_CHILD void reset_limits() {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::umask(022);
  sched_param priority{};
  ::sched_setscheduler(0, SCHED_OTHER, &priority);
  int adjust = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (adjust >= 0) {
    [[maybe_unused]] ssize_t put = ::write(adjust, "0", 1);
    ::close(adjust);
  }
  rlimit files{1024, 524288};
  if (::setrlimit(RLIMIT_NOFILE, &files) != 0) {
    ::getrlimit(RLIMIT_NOFILE, &files);  // not root: the hard limit stays
    files.rlim_cur = files.rlim_max < 1024 ? files.rlim_max : 1024;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
}

// By number: the library's wrappers would change every thread of the daemon, whose memory the child shares.
SPACE_RUNS_IN_CHILD void become(Child& child) {
  const User& user = child.plan->user;
  if (!child.change_user) return;
  if (::syscall(SYS_setgroups, user.groups.size(), user.groups.data()) != 0 ||
      ::syscall(SYS_setgid, user.gid) != 0 || ::syscall(SYS_setuid, user.uid) != 0) {
    give_up(child, Step::kCredentials);
  }
}

SPACE_RUNS_IN_CHILD void execute(Child& child) {
  int remembered = ENOENT;
  for (const auto& candidate : child.plan->candidates) {
    const char* path = candidate.c_str();
    ::execve(path, child.argv.data(), child.environment.data());
    if (errno == ENOEXEC) {
      child.shell_argv[1] = const_cast<char*>(path);  // SAFETY: execve only reads
      ::execve("/bin/sh", child.shell_argv.data(), child.environment.data());
      errno = ENOEXEC;
    }
    if (errno == ENOENT && ::access(path, F_OK) == 0) give_up(child, Step::kInterpreter);
    if (errno == EACCES || errno == EISDIR) remembered = EACCES;
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES && errno != EISDIR && errno != ENAMETOOLONG) {
      give_up(child, Step::kExecute);
    }
  }
  errno = remembered;
  give_up(child, Step::kExecute);
}

SPACE_RUNS_IN_CHILD void child_main(void* argument) {
  Child& child = *static_cast<Child*>(argument);
  const SpawnPlan& plan = *child.plan;
  ::setsid();
  for (int target = 0; target < 3; ++target) {
    if (::dup2(plan.stdio[target], target) < 0) give_up(child, Step::kPrepare);
  }
  if (plan.controlling_terminal && ::ioctl(0, TIOCSCTTY, 0) != 0) give_up(child, Step::kPrepare);
  reset_limits();
  become(child);
  if (!plan.cwd.empty()) {
    if (::chdir(plan.cwd.c_str()) != 0) give_up(child, Step::kDirectory);
  } else if (plan.home.empty() || ::chdir(plan.home.c_str()) != 0) {
    if (::chdir("/") != 0) give_up(child, Step::kDirectory);
  }
  execute(child);
}

Error failure(const SpawnPlan& plan, Step step, int error) {
  std::string program = escape(plan.argv.front(), 120);
  switch (step) {
    case Step::kDirectory:
      return Error{
          Code::kNotFound, "guest.no_directory",
          errno_error(error, "", "cannot enter the working directory " + escape(plan.cwd, 200)).message,
          "cwd"};
    case Step::kCredentials:
      return errno_error(error, "guest.permission_denied", "become user " + escape(plan.user.name, 64));
    case Step::kInterpreter:
      return make_error(Code::kFailedPrecondition, "guest.command_not_executable",
                        program + " cannot be run: the interpreter or loader that it names does not exist");
    case Step::kExecute:
      break;
    case Step::kPrepare:
    case Step::kNone:
      return errno_error(error, "guest.spawn_failed", "prepare " + program);
  }
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return make_error(Code::kNotFound, "guest.command_not_found", program + ": command not found");
    case E2BIG:
      return make_error(Code::kInvalidArgument, "guest.argument_list_too_long",
                        program + ": arguments and environment are too long");
    case ENOMEM:
    case EAGAIN:
      return errno_error(error, "guest.too_many_processes", "run " + program);
    default: {
      Error made = errno_error(error, "guest.command_not_executable", program + " cannot be run");
      if (made.code != Code::kPermissionDenied) made.code = Code::kFailedPrecondition;
      return made;
    }
  }
}

}  // namespace

Result<pid_t> spawn(const SpawnPlan& plan, std::atomic<pid_t>& pid) {
  Child child{};
  child.plan = &plan;
  child.argv = pointers(plan.argv);
  child.environment = pointers(plan.environment);
  child.shell_argv = {const_cast<char*>("sh"), nullptr};  // SAFETY: execve only reads
  child.shell_argv.insert(child.shell_argv.end(), child.argv.begin() + 1, child.argv.end());
  // Without the right to change it, only the daemon's own user can be asked for.
  child.change_user = ::geteuid() == 0 || plan.user.uid != ::geteuid();

  static_assert(sizeof(std::atomic<pid_t>) == sizeof(pid_t) && std::atomic<pid_t>::is_always_lock_free);
  // SAFETY: the kernel stores one aligned int, which a lock-free atomic of the same size is.
  pid_t result = clone_child(&child_main, &child, plan.cgroup, reinterpret_cast<pid_t*>(&pid));
  if (result < 0) {
    if (result == -EAGAIN || result == -ENOMEM) {
      return make_error(Code::kResourceExhausted, "guest.too_many_processes",
                        "the sandbox has no room for another process; end some");
    }
    return errno_error(-result, "guest.spawn_failed", "start a process");
  }
  if (child.failed != Step::kNone) return failure(plan, child.failed, child.error);
  return result;
}

}  // namespace space::guest
