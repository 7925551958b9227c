// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>

#include "lib/os/file.h"
#include "node/slot/internal/jail_mounts.h"

namespace space::node::slot::internal {
namespace {

constexpr const char* kReason = "node.jail_mount";

struct Device {
  const char* name;
  unsigned major;
  unsigned minor;
};
constexpr Device kDevices[] = {{"null", 1, 3}, {"zero", 1, 5}, {"urandom", 1, 9}, {"kvm", 10, 232}};

Result<void> do_mount(const std::string& source, const std::string& target, const char* type,
                      unsigned long flags, const std::string& data = {}) {
  if (::mount(source.c_str(), target.c_str(), type, flags, data.empty() ? nullptr : data.c_str()) != 0) {
    return errno_error(errno, kReason, "mount " + source + " on " + target);
  }
  return {};
}

// A bind takes its flags only in a second step.
Result<void> bind(const std::string& source, const std::string& target, unsigned long flags) {
  SPACE_CHECK_OK(do_mount(source, target, nullptr, MS_BIND));
  return do_mount("none", target, nullptr, MS_BIND | MS_REMOUNT | flags);
}

// A /dev with the named devices and nothing else. They are made, not bound: the host's own may not be open to
// this user.
Result<void> make_devices(const std::string& dev, const std::vector<std::string>& names) {
  SPACE_CHECK_OK(do_mount("dev", dev, "tmpfs", MS_NOSUID | MS_NOEXEC, "size=64k,nr_inodes=16,mode=0755"));
  for (const auto& name : names) {
    const Device* known = nullptr;
    for (const auto& device : kDevices) {
      if (name == device.name) known = &device;
    }
    if (known == nullptr) return make_error(Code::kInternal, kReason, "no device is called " + name);
    std::string path = dev + "/" + name;
    if (::mknod(path.c_str(), S_IFCHR | 0666, makedev(known->major, known->minor)) != 0 ||
        ::chmod(path.c_str(), 0666) != 0) {
      return errno_error(errno, kReason, "make " + path);
    }
  }
  return do_mount("none", dev, nullptr, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NOEXEC);
}

Result<void> enter(const std::string& root) {
  if (::chdir(root.c_str()) != 0) return errno_error(errno, kReason, "enter " + root);
  // The old root lands on top of the new one's place and is let go at once.
  if (::syscall(SYS_pivot_root, ".", ".") != 0) return errno_error(errno, kReason, "pivot_root");
  if (::umount2(".", MNT_DETACH) != 0) return errno_error(errno, kReason, "let go of the host's file system");
  if (::chdir("/") != 0) return errno_error(errno, kReason, "enter /");
  return {};
}

// The host's root below a layer that takes every write and vanishes with the slot.
Result<std::string> disposable_root(const std::string& scratch) {
  for (const char* name : {"/upper", "/work", "/root"})
    SPACE_CHECK_OK(os::make_directory(scratch + name, 0755));
  std::string root = scratch + "/root";
  SPACE_CHECK_OK(do_mount("overlay", root, "overlay", 0,
                          "lowerdir=/,upperdir=" + scratch + "/upper,workdir=" + scratch + "/work"));
  SPACE_CHECK_OK(do_mount("proc", root + "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC));
  SPACE_CHECK_OK(do_mount("/dev", root + "/dev", nullptr, MS_BIND | MS_REC));
  SPACE_CHECK_OK(os::make_directory(root + "/slot", 0755));
  return root;
}

}  // namespace

Result<void> enter_root(const JailPlan& plan) {
  // Nothing that happens here may reach the host, nor the other way round.
  SPACE_CHECK_OK(do_mount("none", "/", nullptr, MS_REC | MS_PRIVATE));
  std::string root = plan.root;
  if (plan.root_kind == RootKind::kDisposable) {
    SPACE_TRY(root, disposable_root(plan.scratch));
  } else {
    SPACE_CHECK_OK(bind(root, root, MS_RDONLY | MS_NOSUID | MS_NODEV));
    SPACE_CHECK_OK(make_devices(root + "/dev", plan.devices));
  }
  for (const auto& [source, target, access] : plan.binds) {
    unsigned long flags = MS_NOSUID | MS_NODEV | (access == Bind::Access::kReadOnly ? MS_RDONLY : 0);
    if (plan.root_kind == RootKind::kReadOnly) flags |= MS_NOEXEC;
    SPACE_CHECK_OK(bind(source, root + target, flags));
  }
  return enter(root);
}

}  // namespace space::node::slot::internal
