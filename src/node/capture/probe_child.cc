// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "node/capture/internal/probe_child.h"

namespace space::node::capture::internal {
namespace {

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
constexpr std::uint64_t kFeatureUnpopulated = std::uint64_t{1} << 13;  // UFFD_FEATURE_WP_UNPOPULATED
constexpr std::uint64_t kFeatureAsync = std::uint64_t{1} << 15;        // UFFD_FEATURE_WP_ASYNC
constexpr int kAnswerTimeoutMs = 10'000;

enum Order : std::uint8_t { kStore = 1, kLoad = 2, kReceive = 3 };
struct Command {
  std::uint8_t order;
  std::uint8_t value;
  std::uint64_t page;
};
struct Hello {
  std::uint64_t address;
  int error_number;  // 0: armed or not asked to
  std::uint32_t step;
  bool mapped;
};
constexpr const char* kSteps[] = {"", "userfaultfd is not available",
                                  "the kernel has no asynchronous write protection (Linux 6.7)",
                                  "the mapping can't be registered", "the mapping can't be write protected"};

bool read_all(int fd, void* to, std::size_t size) {
  auto* at = static_cast<char*>(to);
  while (size > 0) {
    ssize_t got = ::read(fd, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}
bool write_all(int fd, const void* from, std::size_t size) {
  const auto* at = static_cast<const char*>(from);
  while (size > 0) {
    ssize_t put = ::write(fd, at, size);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put;
    size -= static_cast<std::size_t>(put);
  }
  return true;
}

// The child. Async-signal-safe calls only.
[[noreturn]] void child_main(int image, std::uint64_t size, Arming arming, int commands, int answers) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Hello hello{};
  void* ram = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, image, 0);
  hello.mapped = ram != MAP_FAILED;
  hello.address =
      reinterpret_cast<std::uintptr_t>(ram);  // SAFETY: a number for the parent, which reads this process
  int pipe_ends[2] = {-1, -1};
  if (!hello.mapped || ::pipe(pipe_ends) != 0) {
    hello.mapped = false;
    write_all(answers, &hello, sizeof hello);
    ::_exit(1);
  }
  ::madvise(ram, size, MADV_NOHUGEPAGE);
  if (arming == Arming::kWriteProtect) {
    ArmFailure failure;
    if (arm_write_protection(ram, size, failure) < 0) {
      hello.error_number = failure.error_number;
      for (std::uint32_t i = 0; i < std::size(kSteps); ++i) {
        if (kSteps[i] == failure.step) hello.step = i;
      }
    }
  }
  write_all(answers, &hello, sizeof hello);
  auto* bytes = static_cast<volatile std::uint8_t*>(ram);
  Command command;
  alignas(16) char fill[kPageBytes];
  while (read_all(commands, &command, sizeof command)) {
    std::uint64_t at = command.page * kPageBytes;
    bool done = at < size;
    if (done && command.order == kStore) bytes[at] = command.value;
    if (done && command.order == kLoad) (void)bytes[at];
    if (done && command.order == kReceive) {
      std::memset(fill, command.value, sizeof fill);
      done = write_all(pipe_ends[1], fill, sizeof fill) &&
             read_all(pipe_ends[0], static_cast<char*>(ram) + at, sizeof fill);
    }
    std::uint8_t answer = done ? 1 : 0;
    if (!write_all(answers, &answer, 1)) break;
  }
  ::_exit(0);
}

}  // namespace

int arm_write_protection(void* address, std::uint64_t size_bytes, ArmFailure& failure) {
  auto failed = [&failure](std::uint32_t step, int fd) {
    failure = {kSteps[step], errno};
    if (fd >= 0) ::close(fd);
    return -1;
  };
  int fd = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
  if (fd < 0) return failed(1, fd);
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = kFeatureAsync | kFeatureUnpopulated;
  if (::ioctl(fd, UFFDIO_API, &api) != 0) return failed(2, fd);
  uffdio_register area{};
  area.range.start = reinterpret_cast<std::uintptr_t>(address);  // SAFETY: a mapping of this process
  area.range.len = size_bytes;
  area.mode = UFFDIO_REGISTER_MODE_WP;
  if (::ioctl(fd, UFFDIO_REGISTER, &area) != 0) return failed(3, fd);
  uffdio_writeprotect protect{};
  protect.range = area.range;
  protect.mode = UFFDIO_WRITEPROTECT_MODE_WP;
  if (::ioctl(fd, UFFDIO_WRITEPROTECT, &protect) != 0) return failed(4, fd);
  return fd;
}

Result<ProbeChild> ProbeChild::start(int image, std::uint64_t pages, Arming arming) {
  int down[2];
  int up[2];
  if (::pipe2(down, O_CLOEXEC) != 0) return errno_error(errno, "capture.probe", "pipe");
  os::Fd child_reads(down[0]);
  os::Fd we_write(down[1]);
  if (::pipe2(up, O_CLOEXEC) != 0) return errno_error(errno, "capture.probe", "pipe");
  os::Fd we_read(up[0]);
  os::Fd child_writes(up[1]);
  pid_t pid = ::fork();
  if (pid < 0) return errno_error(errno, "capture.probe", "fork");
  if (pid == 0) {
    ::close(we_write.get());
    child_main(image, pages * kPageBytes, arming, child_reads.get(), child_writes.get());
  }
  child_reads.reset();
  child_writes.reset();
  ProbeChild child(pid, std::move(we_write), std::move(we_read));
  Hello hello{};
  if (!read_all(child.answers_.get(), &hello, sizeof hello) || !hello.mapped) {
    return make_error(Code::kUnavailable, "capture.probe", "the probe's child can't map the file");
  }
  child.range_ = {hello.address, pages * kPageBytes};
  child.armed_ = arming == Arming::kWriteProtect && hello.step == 0;
  if (hello.step < std::size(kSteps)) child.arm_failure_ = {kSteps[hello.step], hello.error_number};
  return child;
}

ProbeChild::ProbeChild(ProbeChild&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      commands_(std::move(other.commands_)),
      answers_(std::move(other.answers_)),
      range_(other.range_),
      arm_failure_(other.arm_failure_),
      armed_(other.armed_) {}

ProbeChild::~ProbeChild() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<void> ProbeChild::order(std::uint8_t what, std::uint64_t page, std::uint8_t value) {
  Command command{what, value, page};
  if (!write_all(commands_.get(), &command, sizeof command))
    return errno_error(errno, "capture.probe", "order a write");
  pollfd wait{answers_.get(), POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&wait, 1, kAnswerTimeoutMs);
  } while (ready < 0 && errno == EINTR);
  std::uint8_t answer = 0;
  if (ready <= 0 || !read_all(answers_.get(), &answer, 1) || answer != 1) {
    return make_error(Code::kUnavailable, "capture.probe", "the probe's child does not write");
  }
  return {};
}

Result<void> ProbeChild::store(std::uint64_t page, std::uint8_t value) {
  return order(kStore, page, value);
}
Result<void> ProbeChild::load(std::uint64_t page) {
  return order(kLoad, page, 0);
}
Result<void> ProbeChild::receive(std::uint64_t page, std::uint8_t value) {
  return order(kReceive, page, value);
}

}  // namespace space::node::capture::internal
