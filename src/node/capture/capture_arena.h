// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that captured pages are copied into and that the imager then reads: a memfd with its mapping.
//
// Its memory is there before the guest is stopped (reserve()), since a page fault costs ten times what
// copying a page does. The file can grow but never shrink, so that no reader of it is ever hit by SIGBUS.
// Holds a guest's memory in the clear: never on disk, gone with the last descriptor. An arena may be used
// again, by the same sandbox only.
//
// Resource type, move only. Errors: capture.no_memory.

#include <cstddef>
#include <cstdint>

#include "lib/base/result.h"
#include "lib/os/fd.h"

namespace space::node::capture {

class CaptureArena {
 public:
  // Address space for up to `max_bytes`, no memory yet.
  static Result<CaptureArena> create(std::uint64_t max_bytes);
  CaptureArena(CaptureArena&& other) noexcept;
  CaptureArena& operator=(CaptureArena&& other) noexcept;
  ~CaptureArena();

  // Makes at least the first `bytes` usable and present. What was there stays. About 0.3 ms per MiB that is
  // new.
  Result<void> reserve(std::uint64_t bytes);

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::uint64_t reserved_bytes() const { return reserved_; }
  [[nodiscard]] std::uint64_t max_bytes() const { return max_; }
  // A descriptor of the same memory that can't write, for another process.
  [[nodiscard]] Result<os::Fd> share_read_only() const;

 private:
  CaptureArena(os::Fd memory, std::byte* data, std::uint64_t max)
      : memory_(std::move(memory)), data_(data), max_(max) {}

  os::Fd memory_;
  std::byte* data_ = nullptr;
  std::uint64_t max_ = 0;
  std::uint64_t reserved_ = 0;
};

}  // namespace space::node::capture
