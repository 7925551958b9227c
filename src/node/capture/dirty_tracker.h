// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which pages of a guest's memory were written: the kernel mechanisms that can tell it from outside the VMM,
// behind one interface, in ranked order.
//
//   kWriteProtect  asynchronous write protection, armed by the preloaded library, read by PAGEMAP_SCAN.
//   Exact;
//                  report and re-arm are one step, so it works while the guest runs.
//   kSoftDirty     /proc/PID/clear_refs. Exact, but between reading and clearing a write would be lost: the
//   process
//                  must stand still. Clears the bits of the whole process.
//   kPrivatePages  pages that are no longer the image's. Can't be re-armed: everything written since restore.
//   The
//                  reader of the pages compares hashes to find what is new.
//
// A tracker has one owner (DirtyLedger): whoever collects takes the record away from everybody else.
// Resource type; one call at a time; blocking, about 1 ms per GiB of guest memory.
// Errors: those of Target. After an error of collect_and_rearm() nothing is known about the interval.

#include <cstdint>
#include <memory>
#include <string_view>

#include "lib/base/result.h"
#include "node/capture/page_run.h"
#include "node/capture/target.h"

namespace space::node::capture {

enum class TrackerKind : std::uint8_t {  // stored in root records: never renumber
  kWriteProtect = 1,
  kSoftDirty = 2,
  kPrivatePages = 3,
};
inline constexpr TrackerKind kRankedTrackers[] = {TrackerKind::kWriteProtect, TrackerKind::kSoftDirty,
                                                  TrackerKind::kPrivatePages};
// "write_protect", "soft_dirty", "private_pages": in `space doctor`, benchmarks and root records.
std::string_view to_string(TrackerKind kind);

struct TrackerTraits {
  bool rearms_while_running = false;  // collect_and_rearm() loses no write of a running guest
  bool rearms = false;                // a later report leaves out what an earlier one named
};

class DirtyTracker {
 public:
  virtual ~DirtyTracker() = default;
  DirtyTracker(const DirtyTracker&) = delete;
  DirtyTracker& operator=(const DirtyTracker&) = delete;

  [[nodiscard]] virtual TrackerKind kind() const = 0;
  [[nodiscard]] virtual TrackerTraits traits() const = 0;

  // Pages written since the last successful call, or since tracking was armed; with rearms == false since the
  // image was mapped. Precondition unless rearms_while_running: no thread of the VMM writes to guest memory
  // meanwhile.
  virtual Result<PageRuns> collect_and_rearm() = 0;

  // What collect_and_rearm() would report, changing nothing. A running guest is always fine.
  virtual Result<PageRuns> peek() = 0;

 protected:
  DirtyTracker() = default;
};

// `target` must outlive the tracker. Fails where the mechanism is refused for this very process
// (kWriteProtect: its memory is not armed). Whether the mechanism tells the truth on this machine is
// tracker_probe.h's question.
Result<std::unique_ptr<DirtyTracker>> open_tracker(TrackerKind kind, const Target& target);

}  // namespace space::node::capture
