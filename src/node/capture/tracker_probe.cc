// SPDX-License-Identifier: Apache-2.0
#include "node/capture/tracker_probe.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/os/fd.h"
#include "node/capture/internal/probe_child.h"

namespace space::node::capture {
namespace {

using internal::Arming;
using internal::ProbeChild;

// Pages apart from each other, so that a report of the wrong page is seen.
constexpr std::uint64_t kStored = 3;
constexpr std::uint64_t kReceived = 17;
constexpr std::uint64_t kOnlyRead = 41;

TrackerReport report(TrackerKind kind, TrackerStatus status, std::string reason) {
  return {kind, status, std::move(reason)};
}
TrackerReport unavailable(TrackerKind kind, const Error& error) {
  return report(kind, TrackerStatus::kUnavailable, error.message);
}
TrackerReport lies(TrackerKind kind, const char* how) {
  return report(kind, TrackerStatus::kLies, how);
}

// The questions that every tracker must answer, for what it promises. Returns an empty string when all is
// well.
Result<std::string> cross_examine(DirtyTracker& tracker, ProbeChild& child) {
  SPACE_TRY(PageRuns before, tracker.collect_and_rearm());
  if (!before.empty()) return std::string("it reports pages that nobody wrote to");
  SPACE_CHECK_OK(child.load(kOnlyRead));
  SPACE_CHECK_OK(child.store(kStored, 1));
  SPACE_CHECK_OK(child.receive(kReceived, 2));
  SPACE_TRY(PageRuns peeked, tracker.peek());
  SPACE_TRY(PageRuns first, tracker.collect_and_rearm());
  const PageRuns written = {{kStored, 1}, {kReceived, 1}};
  if (!contains(first, kStored)) return std::string("it does not report a page that was written");
  if (!contains(first, kReceived))
    return std::string("it does not report a page that the kernel wrote for a system call");
  if (contains(first, kOnlyRead)) return std::string("it reports a page that was only read");
  if (first != written || peeked != written) return std::string("it reports pages that nobody wrote to");
  if (!tracker.traits().rearms) return std::string();
  SPACE_TRY(PageRuns quiet, tracker.collect_and_rearm());
  if (!quiet.empty()) return std::string("it reports pages again that were not written again");
  SPACE_CHECK_OK(child.store(kStored, 3));
  SPACE_TRY(PageRuns second, tracker.collect_and_rearm());
  if (second != PageRuns{{kStored, 1}})
    return std::string("it does not report a second write to the same page");
  return std::string();
}

const char* merits(TrackerKind kind) {
  switch (kind) {
    case TrackerKind::kWriteProtect:
      return "exact, also while the guest runs";
    case TrackerKind::kSoftDirty:
      return "exact, but all changed pages are copied while the guest is stopped";
    case TrackerKind::kPrivatePages:
      return "everything written since the restore is read and compared at each snapshot, while the guest is "
             "stopped";
  }
  return "";
}

TrackerReport probe(TrackerKind kind, int image) {
  auto arming = kind == TrackerKind::kWriteProtect ? Arming::kWriteProtect : Arming::kNone;
  auto child = ProbeChild::start(image, kProbePages, arming);
  if (!child.ok()) return unavailable(kind, child.error());
  if (arming == Arming::kWriteProtect && !child->armed()) {
    char text[128] = {};
    return report(kind, TrackerStatus::kUnavailable,
                  std::string(child->arm_failure().step) + ": " +
                      ::strerror_r(child->arm_failure().error_number, text, sizeof text));
  }
  auto target = Target::open(child->pid(), child->range());
  if (!target.ok()) return unavailable(kind, target.error());
  auto tracker = open_tracker(kind, *target);
  if (!tracker.ok()) return unavailable(kind, tracker.error());
  // A new mapping counts as dirty for soft-dirty until it is cleared once.
  if (kind == TrackerKind::kSoftDirty) {
    if (auto cleared = (*tracker)->collect_and_rearm(); !cleared.ok())
      return unavailable(kind, cleared.error());
  }
  auto verdict = cross_examine(**tracker, *child);
  if (!verdict.ok()) return unavailable(kind, verdict.error());
  if (!verdict->empty()) return lies(kind, verdict->c_str());
  return report(kind, TrackerStatus::kWorks, merits(kind));
}

// Not all zero, so that a page of the file is never mistaken for the zero page.
Result<os::Fd> make_image() {
  os::Fd image(::memfd_create("space-probe", MFD_CLOEXEC));
  if (!image) return errno_error(errno, "capture.probe", "memory file");
  std::string page(kPageBytes, 'p');
  for (std::uint64_t i = 0; i < kProbePages; ++i) {
    if (::pwrite(image.get(), page.data(), page.size(), static_cast<off_t>(i * kPageBytes)) !=
        static_cast<ssize_t>(page.size())) {
      return errno_error(errno, "capture.probe", "memory file");
    }
  }
  return image;
}

}  // namespace

std::string_view to_string(TrackerStatus status) {
  switch (status) {
    case TrackerStatus::kWorks:
      return "works";
    case TrackerStatus::kUnavailable:
      return "unavailable";
    case TrackerStatus::kLies:
      return "lies";
    case TrackerStatus::kDistrusted:
      return "distrusted";
  }
  return "unknown";
}

std::vector<TrackerReport> probe_trackers(int image) {
  std::vector<TrackerReport> reports;
  os::Fd own;
  if (image < 0) {
    auto made = make_image();
    if (!made.ok()) {
      for (TrackerKind kind : kRankedTrackers) reports.push_back(unavailable(kind, made.error()));
      return reports;
    }
    own = std::move(*made);
    image = own.get();
  }
  for (TrackerKind kind : kRankedTrackers) reports.push_back(probe(kind, image));
  return reports;
}

Result<std::unique_ptr<DirtyTracker>> TrackerRoster::open_best(const Target& target) const {
  std::string why;
  for (const TrackerReport& candidate : reports()) {
    if (candidate.status == TrackerStatus::kWorks) {
      auto tracker = open_tracker(candidate.kind, target);
      if (tracker.ok()) return tracker;
      if (tracker.error().reason == "capture.target_gone") return tracker;
      why += std::string(to_string(candidate.kind)) + ": " + tracker.error().message + "; ";
    } else {
      why += std::string(to_string(candidate.kind)) + ": " + candidate.reason + "; ";
    }
  }
  return make_error(Code::kFailedPrecondition, "capture.no_tracker",
                    "no way to find changed pages works: " + why);
}

bool TrackerRoster::distrust(TrackerKind kind, std::string reason) {
  std::lock_guard lock(mutex_);
  for (TrackerReport& entry : reports_) {
    if (entry.kind != kind || entry.status == TrackerStatus::kDistrusted) continue;
    entry.status = TrackerStatus::kDistrusted;
    entry.reason = std::move(reason);
    return true;
  }
  return false;
}

std::vector<TrackerReport> TrackerRoster::reports() const {
  std::lock_guard lock(mutex_);
  return reports_;
}

}  // namespace space::node::capture
