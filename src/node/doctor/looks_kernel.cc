// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/base/error.h"
#include "lib/os/fd.h"
#include "node/doctor/looks.h"
#include "node/slot/syscalls.h"
#include "node/vmm/kvm_probe.h"

namespace space::node::doctor {
namespace {

// Newer than the kernel headers of Debian 12.
constexpr std::uint64_t kWriteProtectUnpopulated = 1ULL << 13;
constexpr std::uint64_t kWriteProtectAsync = 1ULL << 15;
constexpr int kUserModeOnly = 1;
struct PageRegion {
  std::uint64_t start, end, categories;
};
struct PagemapScan {
  std::uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, category_inverted, category_mask,
      category_anyof_mask, return_mask;
};
constexpr unsigned long kPagemapScan = _IOWR('f', 16, PagemapScan);
constexpr std::uint64_t kScanWriteProtect = 1;
constexpr std::uint64_t kScanCheckAsync = 2;
constexpr std::uint64_t kPageWritten = 2;

constexpr std::size_t kPages = 16;
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kWrittenPage = 5;

Finding failed(const char* what) {
  return {Status::kWarn, errno_error(errno, "", what).message};
}

// A mapping of a file, private as a VMM's memory is, under asynchronous write protection.
struct Tracked {
  os::Fd file;
  os::Fd faults;
  char* at = nullptr;
};

// Nothing on success.
const char* track(Tracked& tracked) {
  tracked.file = os::Fd(::memfd_create("doctor", MFD_CLOEXEC));
  if (!tracked.file || ::ftruncate(tracked.file.get(), kPages * kPageBytes) != 0)
    return "make a file in memory";
  void* mapped =
      ::mmap(nullptr, kPages * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, tracked.file.get(), 0);
  if (mapped == MAP_FAILED) return "map a file";
  tracked.at = static_cast<char*>(mapped);
  tracked.faults = os::Fd(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | kUserModeOnly)));
  if (!tracked.faults) return "userfaultfd";
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = kWriteProtectAsync | kWriteProtectUnpopulated;
  if (::ioctl(tracked.faults.get(), UFFDIO_API, &api) != 0) return "asynchronous write protection";
  auto start =
      reinterpret_cast<std::uint64_t>(tracked.at);  // SAFETY: an address for the kernel; the mapping lives on
  uffdio_register range{};
  range.range = {start, kPages * kPageBytes};
  range.mode = UFFDIO_REGISTER_MODE_WP;
  if (::ioctl(tracked.faults.get(), UFFDIO_REGISTER, &range) != 0)
    return "register memory for write protection";
  uffdio_writeprotect protect{};
  protect.range = range.range;
  protect.mode = UFFDIO_WRITEPROTECT_MODE_WP;
  if (::ioctl(tracked.faults.get(), UFFDIO_WRITEPROTECT, &protect) != 0) return "write-protect memory";
  return nullptr;
}

}  // namespace

Finding look_at_kvm() {
  auto verdict = vmm::probe_kvm("/proc/self/exe");
  return {verdict.usable ? Status::kOk : Status::kWarn, verdict.found};
}

Finding look_at_namespaces() {
  return in_child(
      CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS, Status::kFail,
      []() -> Finding { return {Status::kOk, "made mount, pid, network, ipc and uts namespaces"}; });
}

Finding look_at_seccomp() {
  return in_child(0, Status::kFail, []() -> Finding {
    auto policy = slot::policy_for(slot::SyscallProfile::kQemu);
    if (!policy.ok()) return {Status::kFail, policy.error().message};
    if (auto applied = (*policy)->apply(); !applied.ok()) return {Status::kFail, applied.error().message};
    // Refused by the list: the filter really works.
    if (::syscall(SYS_socket, 1, 1, 0) >= 0 || errno != EPERM)
      return {Status::kFail, "a filter was installed but does not refuse"};
    return {Status::kOk, "the filter of jails was installed and refuses"};
  });
}

Finding look_at_fuse() {
  return in_child(CLONE_NEWNS, Status::kWarn, []() -> Finding {
    os::Fd fuse(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    if (!fuse) return failed("open /dev/fuse");
    std::string options = "fd=" + std::to_string(fuse.get()) +
                          ",rootmode=40000,user_id=" + std::to_string(::getuid()) +
                          ",group_id=" + std::to_string(::getgid());
    if (::mount("space-doctor", "/mnt", "fuse", MS_NOSUID | MS_NODEV, options.c_str()) != 0)
      return failed("mount on /mnt in a new mount namespace");
    // The kernel greets the server of a new file system.
    alignas(fuse_in_header) char request[FUSE_MIN_READ_BUFFER];
    pollfd waiter{fuse.get(), POLLIN, 0};
    bool greeted = ::poll(&waiter, 1, 1000) > 0 &&
                   ::read(fuse.get(), request, sizeof request) > static_cast<ssize_t>(sizeof(fuse_in_header));
    fuse_in_header header{};
    std::memcpy(&header, request, sizeof header);
    ::umount2("/mnt", MNT_DETACH);
    if (!greeted || header.opcode != FUSE_INIT)
      return {Status::kWarn, "mounted, but the kernel said nothing"};
    return {Status::kOk, "mounted a file system in a new mount namespace"};
  });
}

Finding look_at_write_tracking() {
  return in_child(0, Status::kWarn, []() -> Finding {
    Tracked tracked;
    if (const char* step = track(tracked); step != nullptr) return failed(step);
    // Without a reader of faults this would stop for ever if it were not asynchronous.
    tracked.at[kWrittenPage * kPageBytes] = 1;
    return {Status::kOk, "a write to protected private memory went through by itself"};
  });
}

Finding look_at_pagemap_scan() {
  return in_child(0, Status::kWarn, []() -> Finding {
    Tracked tracked;
    if (const char* step = track(tracked); step != nullptr) return failed(step);
    tracked.at[kWrittenPage * kPageBytes] = 1;
    os::Fd pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    PageRegion regions[kPages] = {};
    PagemapScan scan{};
    scan.size = sizeof scan;
    scan.flags = kScanWriteProtect | kScanCheckAsync;
    scan.start =
        reinterpret_cast<std::uint64_t>(tracked.at);  // SAFETY: addresses for the kernel, all of them live
    scan.end = scan.start + kPages * kPageBytes;
    scan.vec = reinterpret_cast<std::uint64_t>(regions);
    scan.vec_len = kPages;
    scan.category_mask = kPageWritten;
    scan.return_mask = kPageWritten;
    int count = ::ioctl(pagemap.get(), kPagemapScan, &scan);
    if (count < 0) return failed("PAGEMAP_SCAN");
    std::uint64_t written = scan.start + kWrittenPage * kPageBytes;
    if (count != 1 || regions[0].start != written || regions[0].end != written + kPageBytes) {
      return {Status::kWarn, "PAGEMAP_SCAN reported other pages than the one that was written"};
    }
    return {Status::kOk, "found exactly the page that was written"};
  });
}

}  // namespace space::node::doctor
