// SPDX-License-Identifier: Apache-2.0
#include "node/capture/dirty_ledger.h"

#include <algorithm>

#include "lib/base/check.h"
#include "node/capture/pagemap.h"

namespace space::node::capture {

DirtyLedger::DirtyLedger(const Target& target, std::unique_ptr<DirtyTracker> tracker)
    : target_(target), tracker_(std::move(tracker)) {
  SPACE_CHECK(tracker_ != nullptr);
}

Result<void> DirtyLedger::establish() {
  SPACE_CHECK(!open_);
  auto dropped = tracker_->collect_and_rearm();
  if (!dropped.ok()) {
    unknown_ = std::max(unknown_, Unknown::kStateLost);
    return std::move(dropped).error();
  }
  pending_.clear();
  unknown_ = Unknown::kNo;
  return {};
}

Result<PageRuns> DirtyLedger::everything() const {
  if (unknown_ != Unknown::kKernelDoubted && target_.mapping() == MappingKind::kPrivateFile) {
    return select_entries(target_, is_private_entry);
  }
  return PageRuns{{0, target_.range().pages()}};
}

Result<Collected> DirtyLedger::collect() {
  if (failed_)
    return make_error(Code::kFailedPrecondition, "capture.failed",
                      "an earlier round of this snapshot failed");
  const bool first = !open_;
  open_ = true;
  auto written = tracker_->collect_and_rearm();
  if (!written.ok()) {
    failed_ = true;
    return std::move(written).error();
  }
  Collected out;
  if (first && unknown_ != Unknown::kNo) {
    // Listed after re-arming: a page that becomes private later is reported as written.
    auto all = everything();
    if (!all.ok()) {
      failed_ = true;
      return std::move(all).error();
    }
    interval_unknown_ = unknown_;
    out.everything = true;
    out.pages = union_of(*all, union_of(*written, pending_));
  } else if (first) {
    out.pages = union_of(*written, pending_);
  } else {
    out.pages = std::move(*written);
  }
  interval_ = first ? out.pages : union_of(interval_, out.pages);
  return out;
}

Result<std::uint64_t> DirtyLedger::remaining() {
  SPACE_TRY(PageRuns written, tracker_->peek());
  if (open_) return count_pages(written);
  if (unknown_ != Unknown::kNo) {
    SPACE_TRY(PageRuns all, everything());
    return count_pages(union_of(all, union_of(written, pending_)));
  }
  return count_pages(union_of(written, pending_));
}

bool DirtyLedger::commit() {
  SPACE_CHECK(open_);
  if (failed_) {
    abort();
    return false;
  }
  unknown_ = Unknown::kNo;
  interval_unknown_ = Unknown::kNo;
  pending_.clear();
  interval_.clear();
  open_ = false;
  return true;
}

void DirtyLedger::abort() {
  if (!open_) return;
  // A failed collection may have re-armed pages without naming them.
  if (failed_) unknown_ = std::max(unknown_, Unknown::kStateLost);
  unknown_ = std::max(unknown_, interval_unknown_);
  pending_ = union_of(pending_, interval_);
  interval_.clear();
  interval_unknown_ = Unknown::kNo;
  open_ = false;
  failed_ = false;
}

void DirtyLedger::replace_tracker(std::unique_ptr<DirtyTracker> next) {
  SPACE_CHECK(!open_ && next != nullptr);
  tracker_ = std::move(next);
  pending_.clear();
  unknown_ = Unknown::kKernelDoubted;
}

}  // namespace space::node::capture
