// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one owner of a tracker, who makes sure that no written page is ever forgotten.
//
// Collecting takes the record out of the kernel; from then on only this object knows it. A snapshot is one
// *interval*: any number of collect() calls, then commit() once the snapshot is durable, or abort(), after
// which the next interval begins with everything this one knew. What the ledger does not know, it reports as
// "everything": after it was made (a restarted node knows nothing), after a failed collection, after a
// tracker was caught lying.
//
// Resource type; one call at a time; blocking. Errors: those of DirtyTracker.

#include <cstdint>
#include <memory>
#include <string>

#include "node/capture/dirty_tracker.h"

namespace space::node::capture {

struct Collected {
  PageRuns pages;           // to be read
  bool everything = false;  // `pages` are all that can differ from any stored state; the store compares
};

class DirtyLedger {
 public:
  // `target` must outlive the ledger. Begins with everything unknown.
  DirtyLedger(const Target& target, std::unique_ptr<DirtyTracker> tracker);

  [[nodiscard]] TrackerKind tracker() const { return tracker_->kind(); }
  [[nodiscard]] TrackerTraits traits() const { return tracker_->traits(); }

  // States that memory equals a stored snapshot at this moment: it was just bound and no vCPU ran, or a
  // self-check of a stopped guest has found it so. Precondition: no interval is open and the guest stands
  // still.
  Result<void> establish();

  // Is the next interval going to report everything?
  [[nodiscard]] bool unknown() const { return unknown_ != Unknown::kNo; }

  // Opens an interval if none is open, and returns what has to be read (again) now: the first time all since
  // the last committed interval, later what was written since the previous call. While the guest runs only
  // with traits().rearms_while_running. After an error the interval can only be aborted.
  Result<Collected> collect();

  // How many pages collect() would return now, for decisions. Changes nothing.
  Result<std::uint64_t> remaining();

  // The interval's pages are durable: they need not be reported again unless written again. Returns false,
  // and aborts, when the interval had failed. Precondition: an interval is open.
  bool commit();
  // Nothing of the interval counts: the next one reports its pages too. Fine when none is open.
  void abort();

  [[nodiscard]] bool interval_open() const { return open_; }
  // Pages of the open interval, all collections together (not meaningful when it covers everything).
  [[nodiscard]] const PageRuns& interval() const { return interval_; }

  // The tracker missed a write: goes on with `next`, and the next interval reports every page of the range,
  // touched or not. Precondition: no interval is open.
  void replace_tracker(std::unique_ptr<DirtyTracker> next);

 private:
  // How much the next interval has to report when the record can't be relied on.
  enum class Unknown : std::uint8_t {
    kNo,
    kStateLost,      // everything that is not the image's own page
    kKernelDoubted,  // every page
  };
  Result<PageRuns> everything() const;

  const Target& target_;
  std::unique_ptr<DirtyTracker> tracker_;
  Unknown unknown_ = Unknown::kStateLost;
  PageRuns pending_;   // of aborted intervals
  PageRuns interval_;  // collected since the interval was opened, with what was pending then
  bool open_ = false;
  bool failed_ = false;                      // a collection of this interval failed
  Unknown interval_unknown_ = Unknown::kNo;  // this interval began with everything
};

}  // namespace space::node::capture
