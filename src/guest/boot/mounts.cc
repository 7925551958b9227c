// SPDX-License-Identifier: Apache-2.0
#include "guest/boot/mounts.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "guest/core/log.h"

namespace space::guest::boot {
namespace {

bool mount_at(const char* type, const char* where, unsigned long flags, const char* options) {
  ::mkdir(where, 0755);
  if (::mount(type, where, type, flags, options) == 0 || errno == EBUSY) return true;
  log_line("mount", errno_error(errno, "", where).message);
  return false;
}

// A disk that is still being found appears within milliseconds.
bool wait_for(const char* path) {
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (::access(path, F_OK) != 0) {
    if (std::chrono::steady_clock::now() > end) return false;
    timespec half_ms{0, 500'000};
    ::nanosleep(&half_ms, nullptr);
  }
  return true;
}

}  // namespace

Result<void> mount_early() {
  bool good = mount_at("proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) &&
              mount_at("sysfs", "/sys", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) &&
              mount_at("devtmpfs", "/dev", MS_NOSUID, "mode=755");
  if (!good)
    return make_error(Code::kInternal, "guest.mount", "the kernel's own file systems can't be mounted");
  return {};
}

Result<void> enter_root(const std::string& device) {
  auto fail = [&](const char* what) {
    return errno_error(errno, "guest.no_root_disk", std::string(what) + " " + device);
  };
  if (!wait_for(device.c_str())) {
    return make_error(Code::kNotFound, "guest.no_root_disk", "no disk appeared as " + device);
  }
  ::mkdir("/root-disk", 0755);
  if (::mount(device.c_str(), "/root-disk", "ext4", 0, nullptr) != 0) return fail("mount");
  for (const char* early : {"/proc", "/sys", "/dev"}) {
    std::string target = std::string("/root-disk") + early;
    ::mkdir(target.c_str(), 0755);
    if (::mount(early, target.c_str(), nullptr, MS_MOVE, nullptr) != 0) return fail("move mounts to");
  }
  ::unlink("/init");
  if (::chdir("/root-disk") != 0 || ::mount(".", "/", nullptr, MS_MOVE, nullptr) != 0 || ::chroot(".") != 0 ||
      ::chdir("/") != 0) {
    return fail("enter");
  }
  return {};
}

void mount_rest(const Settings& settings) {
  mount_at("devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "gid=5,mode=620,ptmxmode=666");
  mount_at("tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777");
  mount_at("tmpfs", "/run", MS_NOSUID | MS_NODEV, "mode=755,size=20%");
  mount_at("cgroup2", "/sys/fs/cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
  if (settings.tmp_in_memory) mount_at("tmpfs", "/tmp", MS_NOSUID | MS_NODEV, "mode=1777");
  ::mkdir("/tmp", 01777);
  ::chmod("/tmp", 01777);
  ::mkdir("/run/lock", 01777);
  ::chmod("/run/lock", 01777);
  // Made by udev elsewhere.
  [[maybe_unused]] int links =
      ::symlink("/proc/self/fd", "/dev/fd") | ::symlink("/proc/self/fd/0", "/dev/stdin") |
      ::symlink("/proc/self/fd/1", "/dev/stdout") | ::symlink("/proc/self/fd/2", "/dev/stderr");
}

}  // namespace space::guest::boot
