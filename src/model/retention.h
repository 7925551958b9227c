// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which snapshots of a session stay. Pure: control decides by this, the imager deletes.
//
// A policy is a row of rules, finest first: within `window` before now one point per `spacing` stays (zero:
// every one). Time is cut into slots of the spacing that don't move with now, and the newest point of a slot
// is the one that stays; as each spacing divides the next, that point was kept by all finer rules too, so
// thinning again and again, at any times, keeps the same points as thinning once. Older than the last window:
// nothing stays. Never thinned whatever the policy: named points, fork points and the newest.

#include <chrono>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/id.h"
#include "lib/base/result.h"

namespace space::model {

struct RetentionRule {
  std::chrono::seconds window{};
  std::chrono::seconds spacing{};
  bool operator==(const RetentionRule&) const = default;
};

struct RetentionPolicy {
  bool keep_all = false;
  std::vector<RetentionRule> rules;
};

// Every point of the last hour, one per 10 minutes for a day, one per hour for 7 days.
RetentionPolicy default_retention();

// Errors: model.bad_retention, naming the field: rules need growing windows and spacings, each a multiple of
// the one before.
Result<void> validate(const RetentionPolicy& policy);

struct RetentionPoint {
  SnapshotId id;
  WallTime time{};
  bool named = false;
  bool fork_point = false;
};

// The points to remove, in the order given. `policy` is valid. A point from the future stays.
std::vector<SnapshotId> thin(const std::vector<RetentionPoint>& points, const RetentionPolicy& policy,
                             WallTime now);

}  // namespace space::model
