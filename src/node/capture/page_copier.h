// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies pages out of another process into our memory, as fast as the machine lets us.
//
// process_vm_readv with up to 1,024 pieces per call; neighbouring pages are one piece on either side. What
// limits it: the destination must have its memory already (a fault per page there costs ten times the copy:
// see CaptureArena), then about 0.5 us per page for looking it up in the other process, as much as copying it
// takes. Above kParallelPages two threads share the work.
//
// Reading an untouched page faults it in in the VMM, from its image. Resource type; one call at a time;
// blocking. Errors: capture.target_gone, capture.unreadable_page (the image failed to deliver it),
// capture.target.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "node/capture/target.h"

namespace space::node::capture {

// Page `page` goes to slot `slot` of the destination, which begins at slot * kPageBytes.
struct PagePlacement {
  std::uint64_t page = 0;
  std::uint64_t slot = 0;
};

struct CopyStats {
  std::uint64_t pages = 0;
  std::chrono::nanoseconds time{0};
  [[nodiscard]] double bytes_per_second() const {
    return time.count() > 0
               ? static_cast<double>(pages * kPageBytes) * 1e9 / static_cast<double>(time.count())
               : 0;
  }
};

class PageCopier {
 public:
  static constexpr std::size_t kParallelPages =
      1024;  // 4 MiB: below, a second thread costs more than it saves

  // The references must outlive the copier. threads: 1 or 2.
  PageCopier(const Target& target, const Clock& clock, unsigned threads = 2)
      : target_(target), clock_(clock), threads_(threads) {}

  // Copies each page to its slot. Placements that are neighbours in both numbers are copied as one piece, so
  // sort them by page. `destination` must hold every slot named. On error some slots have been written.
  Result<CopyStats> copy(std::span<const PagePlacement> placements, std::byte* destination);

 private:
  const Target& target_;
  const Clock& clock_;
  unsigned threads_;
};

}  // namespace space::node::capture
