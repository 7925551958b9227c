// SPDX-License-Identifier: Apache-2.0
#include "node/capture/target.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

namespace space::node::capture {
namespace {

constexpr std::size_t kMaxMapsBytes = 8u << 20;  // a VMM has some hundred mappings
constexpr std::uint64_t kUserSpaceEnd = std::uint64_t{1} << 47;

Result<std::string> read_all(int fd) {
  std::string text;
  char buffer[16384];
  for (;;) {
    ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error(errno, "capture.target", "read maps");
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kMaxMapsBytes)
      return make_error(Code::kResourceExhausted, "capture.target", "too many mappings");
  }
}

// Looks at the numbers and flags of each line only; the path belongs to the VMM.
Result<MappingKind> classify(const std::string& maps, RamRange range) {
  std::uint64_t covered = range.address;
  std::uint64_t end = range.address + range.size_bytes;
  auto kind = MappingKind::kPrivateFile;
  for (std::size_t at = 0; at < maps.size() && covered < end;) {
    std::size_t line_end = maps.find('\n', at);
    if (line_end == std::string::npos) line_end = maps.size();
    std::string line = maps.substr(at, line_end - at);
    at = line_end + 1;
    unsigned long long from = 0;
    unsigned long long to = 0;
    unsigned long long offset = 0;
    unsigned long long inode = 0;
    unsigned major = 0;
    unsigned minor = 0;
    char flags[5] = {};
    if (std::sscanf(line.c_str(), "%llx-%llx %4s %llx %x:%x %llu", &from, &to, flags, &offset, &major, &minor,
                    &inode) != 7) {
      continue;
    }
    if (to <= covered) continue;
    if (from > covered) break;
    covered = to;
    if (flags[3] != 'p' || inode == 0) kind = MappingKind::kOther;
  }
  if (covered < end) {
    return make_error(Code::kFailedPrecondition, "capture.bad_range",
                      "the guest's memory is not where the VMM said");
  }
  return kind;
}

}  // namespace

Result<Target> Target::open(pid_t pid, RamRange range) {
  if (range.size_bytes == 0 || range.address % kPageBytes != 0 || range.size_bytes % kPageBytes != 0 ||
      range.address >= kUserSpaceEnd || range.size_bytes > kUserSpaceEnd - range.address) {
    return make_error(Code::kInvalidArgument, "capture.bad_range",
                      "guest memory must be whole pages of user space");
  }
  auto gone_or = [pid](const char* what) {
    return errno_error(errno, errno == ESRCH || errno == ENOENT ? "capture.target_gone" : "capture.target",
                       std::string(what) + " of process " + std::to_string(pid));
  };
  os::Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) return gone_or("descriptor");
  os::Fd proc(::open(("/proc/" + std::to_string(pid)).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!proc) return gone_or("/proc directory");
  os::Fd pagemap(::openat(proc.get(), "pagemap", O_RDONLY | O_CLOEXEC));
  if (!pagemap) return gone_or("pagemap");
  os::Fd maps(::openat(proc.get(), "maps", O_RDONLY | O_CLOEXEC));
  if (!maps) return gone_or("maps");
  SPACE_TRY(std::string text, read_all(maps.get()));
  SPACE_TRY(MappingKind mapping, classify(text, range));
  Target target(pid, range, std::move(pidfd), std::move(proc), std::move(pagemap), mapping);
  // The pidfd came first: alive now means that all the others are of the same process.
  if (!target.alive()) return make_error(Code::kNotFound, "capture.target_gone", "the VMM has ended");
  return target;
}

bool Target::alive() const {
  pollfd wait{pidfd_.get(), POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&wait, 1, 0);
  } while (ready < 0 && errno == EINTR);
  return ready == 0;
}

Error Target::failure(int error_number, std::string_view what) const {
  if (!alive() || error_number == ESRCH) {
    return make_error(Code::kNotFound, "capture.target_gone", std::string(what) + ": the VMM has ended");
  }
  return errno_error(error_number, "capture.target", what);
}

Result<os::Fd> Target::open_proc(const char* name, int flags) const {
  os::Fd fd(::openat(proc_.get(), name, flags | O_CLOEXEC));
  if (!fd) return failure(errno, name);
  return fd;
}

}  // namespace space::node::capture
