// SPDX-License-Identifier: Apache-2.0
#pragma once
// The process whose guest memory is captured, held by descriptors, so that a reused process number can't be
// taken for it: pagemap and maps are opened through one /proc directory, which stops working when the process
// ends, and liveness is asked of a pidfd.
//
// Needs CAP_SYS_PTRACE for a process of another user. Resource type; safe to read from several threads.
// Errors: capture.target_gone (the process ended), capture.target (with the errno's code), capture.bad_range.

#include <sys/types.h>

#include <cstdint>

#include "lib/base/result.h"
#include "lib/os/fd.h"
#include "node/capture/page_run.h"

namespace space::node::capture {

// Guest memory in the address space of its VMM, as the VMM reported it: page-aligned, not empty. Value type.
struct RamRange {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  [[nodiscard]] std::uint64_t pages() const { return size_bytes / kPageBytes; }
  [[nodiscard]] std::uint64_t address_of(std::uint64_t page) const { return address + page * kPageBytes; }
};

enum class MappingKind : std::uint8_t {
  kPrivateFile,  // a page that is still the file's was never written by this process
  kOther,        // anonymous, shared or several: nothing can be said of untouched pages
};

class Target {
 public:
  // Errors: capture.target, capture.bad_range (misaligned, empty, not mapped as a whole).
  static Result<Target> open(pid_t pid, RamRange range);

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const RamRange& range() const { return range_; }
  [[nodiscard]] MappingKind mapping() const { return mapping_; }
  [[nodiscard]] int pagemap() const { return pagemap_.get(); }
  [[nodiscard]] bool alive() const;
  // `what` failed with `error_number`: capture.target_gone when the process has ended, else capture.target.
  [[nodiscard]] Error failure(int error_number, std::string_view what) const;
  // A file of the process's /proc directory.
  [[nodiscard]] Result<os::Fd> open_proc(const char* name, int flags) const;

 private:
  Target(pid_t pid, RamRange range, os::Fd pidfd, os::Fd proc, os::Fd pagemap, MappingKind mapping)
      : pid_(pid),
        range_(range),
        pidfd_(std::move(pidfd)),
        proc_(std::move(proc)),
        pagemap_(std::move(pagemap)),
        mapping_(mapping) {}

  pid_t pid_;
  RamRange range_;
  os::Fd pidfd_;
  os::Fd proc_;
  os::Fd pagemap_;
  MappingKind mapping_;
};

}  // namespace space::node::capture
