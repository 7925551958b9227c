// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which trackers tell the truth on this machine, found out by behaviour: a child process really writes, by
// processor and by system call, twice to the same page, and the tracker must report it each time and nothing
// else. On some kernels soft-dirty accepts every call and never reports a write: only this shows it.
//
// TrackerRoster keeps the answer, the order, and what was learnt later: a tracker that missed a write is
// distrusted until the process restarts.

#include <mutex>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "node/capture/dirty_tracker.h"

namespace space::node::capture {

enum class TrackerStatus : std::uint8_t {
  kWorks,
  kUnavailable,  // the kernel or a policy refuses it
  kLies,         // it accepts everything and reports wrongly
  kDistrusted,   // worked in the probe and was caught missing a write later
};
std::string_view to_string(TrackerStatus status);  // "works", "unavailable", "lies", "distrusted"

struct TrackerReport {
  TrackerKind kind = TrackerKind::kPrivatePages;
  TrackerStatus status = TrackerStatus::kUnavailable;
  std::string reason;  // a sentence: what is missing and what that means; for kWorks what it costs
};

// Ranked, one for each kind. `image` is a file to map, of at least kProbePages pages (a FUSE file for the
// real thing); -1 makes a memory file. About 5 ms. Forks; call from any thread.
inline constexpr std::uint64_t kProbePages = 64;
std::vector<TrackerReport> probe_trackers(int image = -1);

// Thread-safe. Resource type.
class TrackerRoster {
 public:
  explicit TrackerRoster(std::vector<TrackerReport> reports) : reports_(std::move(reports)) {}

  // Opens the best tracker that works here and for this process. `target` must outlive it.
  // Errors: capture.no_tracker, which lists every reason.
  Result<std::unique_ptr<DirtyTracker>> open_best(const Target& target) const;
  // A write was missed. The tracker is not opened again. Returns whether that is news.
  bool distrust(TrackerKind kind, std::string reason);
  [[nodiscard]] std::vector<TrackerReport> reports() const;

 private:
  mutable std::mutex mutex_;
  std::vector<TrackerReport> reports_;
};

}  // namespace space::node::capture
