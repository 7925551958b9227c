// SPDX-License-Identifier: Apache-2.0
#include "supervise/child.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "lib/os/confine/capabilities.h"
#include "lib/os/confine/process.h"
#include "lib/os/confine/user.h"
#include "lib/os/file.h"

namespace space::supervise {
namespace confine = os::confine;

namespace {

constexpr rlim_t kOpenFiles = 65536;
constexpr int kHighestCapability = 63;

Error failure(const char* what) {
  return errno_error(errno, "supervise.spawn", what);
}

// Puts the listed descriptors at 3, 4, ... and everything else out of the way of execve. `report` and
// `program` stay open until then.
Result<void> arrange_descriptors(const ChildSpec& spec, int output) {
  std::vector<int> high;
  int floor = kFirstDescriptor + static_cast<int>(spec.descriptors.size());
  for (int fd : spec.descriptors) {
    int copy = ::fcntl(fd, F_DUPFD, floor);
    if (copy < 0) return failure("duplicate a descriptor");
    high.push_back(copy);
  }
  int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0) return failure("open /dev/null");
  if (::dup2(null, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(output, 2) < 0)
    return failure("set standard descriptors");
  if (::syscall(SYS_close_range, static_cast<unsigned>(floor), ~0U, CLOSE_RANGE_CLOEXEC) != 0)
    return failure("mark descriptors");
  for (std::size_t i = 0; i < high.size(); ++i) {
    if (::dup2(high[i], kFirstDescriptor + static_cast<int>(i)) < 0) return failure("place a descriptor");
  }
  return {};
}

void default_signals() {
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

Result<void> drop_privileges(uid_t user) {
  for (int capability = 0; capability <= kHighestCapability; ++capability) {
    // EINVAL: the kernel knows no such capability.
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno != EINVAL)
      return failure("drop a capability");
  }
  SPACE_CHECK_OK(confine::become_user({user, static_cast<gid_t>(user), {}}));
  SPACE_CHECK_OK(confine::forbid_new_privileges());
  return confine::keep_only_capabilities({});
}

// In the child, after fork. Returns only with an error.
Error become(const ChildSpec& spec, pid_t parent, int output, int program) {
  default_signals();
  if (::setsid() < 0) return failure("start a session");
  ::umask(077);
  if (::chdir("/") != 0) return failure("change directory");
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return failure("read the limit of open files");
  files.rlim_max = std::min(files.rlim_max, kOpenFiles);  // root need not have the right to raise it
  files.rlim_cur = files.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &files) != 0) return failure("set the limit of open files");
  // Above every number that arrange_descriptors places.
  int runnable = ::fcntl(program, F_DUPFD_CLOEXEC, 200);
  if (runnable < 0) return failure("keep the program open");
  if (auto done = arrange_descriptors(spec, output); !done.ok()) return done.error();
  if (spec.user) {
    if (auto done = drop_privileges(*spec.user); !done.ok()) return done.error();
  }
  // After changing user, which clears it.
  if (auto done = confine::die_with_parent(SIGKILL, parent); !done.ok()) return done.error();
  std::vector<char*> argv;
  std::string name = spec.program;
  argv.push_back(name.data());
  std::vector<std::string> arguments = spec.arguments;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  static char lang[] = "LANG=C.UTF-8";
  std::array<char*, 3> environment = {path, lang, nullptr};
  ::execve(spec.program.c_str(), argv.data(), environment.data());
  // The user may not reach the directory that root found the program in; the file itself will do.
  if (errno == EACCES) ::syscall(SYS_execveat, runnable, "", argv.data(), environment.data(), AT_EMPTY_PATH);
  return failure(("run " + spec.program).c_str());
}

}  // namespace

Result<StartedChild> start_child(const ChildSpec& spec) {
  SPACE_TRY(os::Fd program, os::open_file(spec.program, O_RDONLY));
  int output[2];
  if (::pipe2(output, O_CLOEXEC) != 0) return failure("make a pipe");
  os::Fd output_reader(output[0]);
  os::Fd output_writer(output[1]);
  if (::fcntl(output_reader.get(), F_SETFL, O_NONBLOCK) != 0) return failure("set up a pipe");
  int report[2];  // closes at execve; before that it carries what went wrong
  if (::pipe2(report, O_CLOEXEC) != 0) return failure("make a pipe");
  os::Fd report_reader(report[0]);
  os::Fd report_writer(report[1]);

  pid_t parent = ::getpid();
  pid_t pid = ::fork();
  if (pid < 0) return failure("fork");
  if (pid == 0) {
    // Out of the way of the numbers that the child's descriptors get.
    int channel = ::fcntl(report_writer.get(), F_DUPFD_CLOEXEC, 200);
    Error error = become(spec, parent, output_writer.get(), program.get());
    os::write_all(channel, as_bytes(error.message)).ignore("nothing more can be done");
    ::_exit(127);
  }
  report_writer.reset();
  output_writer.reset();
  std::string problem;
  char buffer[512];
  for (;;) {
    ssize_t got = ::read(report_reader.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    problem.append(buffer, static_cast<std::size_t>(got));
  }
  if (!problem.empty()) {
    ::waitpid(pid, nullptr, 0);
    return make_error(Code::kInternal, "supervise.spawn", "cannot start " + spec.name + ": " + problem);
  }
  return StartedChild{pid, std::move(output_reader)};
}

}  // namespace space::supervise
