// SPDX-License-Identifier: Apache-2.0
#include "node/capture/precopy.h"

#include "node/capture/page_run.h"

namespace space::node::capture {
namespace {

// Half of what was measured on a small machine: used only until the first round has measured.
constexpr double kAssumedBytesPerSecond = 1e9;

}  // namespace

std::string_view to_string(CutReason reason) {
  switch (reason) {
    case CutReason::kNone:
      return "none";
    case CutReason::kFitsBudget:
      return "fits_budget";
    case CutReason::kScanDominates:
      return "scan_dominates";
    case CutReason::kCannotRearm:
      return "cannot_rearm";
    case CutReason::kStoppedShrinking:
      return "stopped_shrinking";
    case CutReason::kRoundLimit:
      return "round_limit";
    case CutReason::kTimeLimit:
      return "time_limit";
  }
  return "unknown";
}

PreCopyVerdict PreCopy::next(const RoundFacts& facts) {
  double speed = facts.copy_bytes_per_second > 0 ? facts.copy_bytes_per_second : kAssumedBytesPerSecond;
  double copy_us = static_cast<double>(facts.remaining_pages) * static_cast<double>(kPageBytes) / speed * 1e6;
  PreCopyVerdict verdict;
  verdict.expected_pause = facts.scan_time + std::chrono::microseconds(static_cast<std::int64_t>(copy_us));
  if (rounds_ > 0) {
    bool shrank = static_cast<double>(facts.remaining_pages) <=
                  limits_.must_shrink_to * static_cast<double>(last_remaining_);
    stalled_ = shrank ? 0 : stalled_ + 1;
  }
  last_remaining_ = facts.remaining_pages;
  if (verdict.expected_pause <= limits_.pause_budget) {
    verdict.reason = CutReason::kFitsBudget;
  } else if (copy_us <= static_cast<double>(facts.scan_time.count())) {
    verdict.reason = CutReason::kScanDominates;
  } else if (rounds_ >= limits_.max_rounds) {
    verdict.reason = CutReason::kRoundLimit;
  } else if (rounds_ > 0 && facts.elapsed >= limits_.max_time) {
    verdict.reason = CutReason::kTimeLimit;
  } else if (stalled_ >= limits_.stalled_rounds) {
    verdict.reason = CutReason::kStoppedShrinking;
  } else {
    verdict.copy_again = true;
    ++rounds_;
  }
  return verdict;
}

}  // namespace space::node::capture
