// SPDX-License-Identifier: Apache-2.0
#include "node/capture/capture_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "node/capture/page_run.h"

namespace space::node::capture {
namespace {

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

Error no_memory(int error_number, std::uint64_t bytes) {
  auto error =
      errno_error(error_number, "capture.no_memory",
                  "get " + std::to_string(bytes >> 20) + " MiB of memory to copy the guest's pages into");
  error.code = Code::kResourceExhausted;
  return error;
}

std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

Result<CaptureArena> CaptureArena::create(std::uint64_t max_bytes) {
  max_bytes = whole_pages(max_bytes);
  os::Fd memory(::memfd_create("space-capture", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory || ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) return no_memory(errno, 0);
  void* data =
      ::mmap(nullptr, max_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory.get(), 0);
  if (data == MAP_FAILED) return no_memory(errno, max_bytes);
  return CaptureArena(std::move(memory), static_cast<std::byte*>(data), max_bytes);
}

CaptureArena::CaptureArena(CaptureArena&& other) noexcept
    : memory_(std::move(other.memory_)),
      data_(std::exchange(other.data_, nullptr)),
      max_(std::exchange(other.max_, 0)),
      reserved_(std::exchange(other.reserved_, 0)) {}

CaptureArena& CaptureArena::operator=(CaptureArena&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) ::munmap(data_, max_);
    memory_ = std::move(other.memory_);
    data_ = std::exchange(other.data_, nullptr);
    max_ = std::exchange(other.max_, 0);
    reserved_ = std::exchange(other.reserved_, 0);
  }
  return *this;
}

CaptureArena::~CaptureArena() {
  if (data_ != nullptr) ::munmap(data_, max_);
}

Result<void> CaptureArena::reserve(std::uint64_t bytes) {
  bytes = whole_pages(bytes);
  if (bytes <= reserved_) return {};
  if (bytes > max_) return no_memory(ENOSPC, bytes);
  // fallocate takes the memory or says that there is none, where touching it could only end in a signal.
  int failed = 0;
  do {
    failed =
        ::fallocate(memory_.get(), 0, static_cast<off_t>(reserved_), static_cast<off_t>(bytes - reserved_));
  } while (failed != 0 && errno == EINTR);
  if (failed != 0) return no_memory(errno, bytes);
  // Enters the pages into our page table; an older kernel does that at the first copy.
  if (::madvise(data_ + reserved_, bytes - reserved_, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) {
    return no_memory(errno, bytes);
  }
  reserved_ = bytes;
  return {};
}

Result<os::Fd> CaptureArena::share_read_only() const {
  os::Fd fd(::open(("/proc/self/fd/" + std::to_string(memory_.get())).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return errno_error(errno, "capture.no_memory", "open the captured pages for reading");
  return fd;
}

}  // namespace space::node::capture
