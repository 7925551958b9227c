// SPDX-License-Identifier: Apache-2.0
#include "guest/boot/boot.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "guest/boot/grow.h"
#include "guest/boot/machine.h"
#include "guest/boot/modules.h"
#include "guest/boot/mounts.h"
#include "guest/core/log.h"
#include "guest/core/small_file.h"

namespace space::guest::boot {
namespace {

// PID 1 becomes the root disk's init; the child goes on as the daemon.
void hand_over_to_systemd(char* argv0) {
  pid_t child = ::fork();
  if (child == 0) {
    // systemd kills everything at shutdown but what is named like this.
    if (argv0 != nullptr && argv0[0] != '\0') argv0[0] = '@';
    ::setsid();
    return;
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  char name[] = "/sbin/init";
  char* arguments[] = {name, nullptr};
  char* environment[] = {nullptr};
  ::execve(name, arguments, environment);
  log_line("init", errno_error(errno, "", "the root disk has no /sbin/init that runs").message);
  for (;;) {  // somebody has to be PID 1
    if (::waitpid(-1, nullptr, 0) < 0) ::pause();
  }
}

}  // namespace

void trace(const Settings& settings, const char* stage) {
  if (!settings.trace) return;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  log_line(stage, std::to_string(now.tv_sec * 1000000 + now.tv_nsec / 1000) + " us");
}

Result<Booted> boot(char* argv0) {
  SPACE_CHECK_OK(mount_early());
  Settings settings = parse_command_line(read_small("/proc/cmdline"));
  trace(settings, "early mounts");
  auto later = load_modules("/modules");
  trace(settings, "modules");
  SPACE_CHECK_OK(enter_root(settings.root));
  trace(settings, "root");
  mount_rest(settings);
  trace(settings, "mounts");
  if (auto grown = grow_root(settings.root, "/"); !grown.ok()) log_error("disk", grown.error());
  trace(settings, "size");
  set_hostname(settings.hostname);
  bring_up_loopback();
  if (settings.init == Init::kSystemd) hand_over_to_systemd(argv0);
  return Booted{std::move(settings), std::move(later)};
}

}  // namespace space::guest::boot
