// SPDX-License-Identifier: Apache-2.0
#include "guest/boot/machine.h"

#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "guest/core/log.h"
#include "guest/core/small_file.h"

namespace space::guest::boot {
namespace {

void pause_us(long us) {
  timespec time{us / 1'000'000, us % 1'000'000 * 1000};
  ::nanosleep(&time, nullptr);
}

void log_failure(const char* what) {
  log_line(what, errno_error(errno, "", "failed").message);
}

std::string find_port(const std::string& name) {
  std::unique_ptr<DIR, int (*)(DIR*)> ports(::opendir("/sys/class/virtio-ports"), &::closedir);
  if (!ports) return {};
  while (dirent* entry = ::readdir(ports.get())) {
    std::string port = entry->d_name;
    if (port.front() == '.') continue;
    std::string held = read_small(("/sys/class/virtio-ports/" + port + "/name").c_str(), 128);
    if (held == name + "\n" || held == name) return "/dev/" + port;
  }
  return {};
}

}  // namespace

void set_hostname(const std::string& name) {
  if (::sethostname(name.data(), name.size()) != 0) log_failure("host name");
}

void bring_up_loopback() {
  os::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", 3);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (!socket || ::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0)
    log_failure("loopback");  // SAFETY: takes an ifreq
}

Result<os::Fd> open_port(const std::string& name) {
  auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < end) {
    std::string path = find_port(name);
    if (!path.empty()) {
      os::Fd port(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
      if (port) return port;
    }
    pause_us(500);
  }
  return make_error(Code::kNotFound, "guest.no_channel", "no virtio port is named " + name);
}

void protect_daemon() {
  if (!write_small("/proc/self/oom_score_adj", "-1000")) log_failure("oom_score_adj");
  if (::mlockall(MCL_CURRENT | MCL_FUTURE) != 0) log_failure("lock memory");
  rlimit files{16384, 524288};
  if (::setrlimit(RLIMIT_NOFILE, &files) != 0) log_failure("descriptor limit");
  sched_param priority{};
  priority.sched_priority = 1;
  if (::sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &priority) != 0) log_failure("priority");
}

void end_machine(const Settings& settings, PowerAction) {
  if (settings.init == Init::kSystemd && ::getpid() != 1) {
    ::kill(1, SIGRTMIN + 5);  // systemd's reboot.target
    return;
  }
  ::kill(-1, SIGKILL);
  for (int tries = 0; tries < 2000; ++tries) {
    pid_t pid = ::waitpid(-1, nullptr, WNOHANG);
    if (pid < 0 && errno == ECHILD) break;
    if (pid == 0) pause_us(1000);
  }
  ::sync();
  ::mount(nullptr, "/", nullptr, MS_REMOUNT | MS_RDONLY, nullptr);
  ::reboot(RB_AUTOBOOT);
}

}  // namespace space::guest::boot
