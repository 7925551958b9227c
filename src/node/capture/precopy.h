// SPDX-License-Identifier: Apache-2.0
#pragma once
// When to stop the guest: pre-copy as a decision without any I/O.
//
// Each round copies what was written during the one before. Another round pays while the remainder shrinks;
// once copying it fits the pause that is allowed, or it stops shrinking (the guest writes as fast as we
// copy), or enough rounds or time have passed, the guest is stopped and the rest is copied in the pause.
// Pure.

#include <chrono>
#include <cstdint>
#include <string_view>

namespace space::node::capture {

struct PreCopyLimits {
  std::chrono::microseconds pause_budget{2500};  // for the last scan and copy; the pause has other parts too
  unsigned max_rounds = 8;                       // copying rounds while the guest runs
  double must_shrink_to = 0.75;                  // of the round before, else the round counts as stalled
  unsigned stalled_rounds = 2;                   // in a row, that many end it
  std::chrono::milliseconds max_time{2000};      // of all rounds together
};

struct RoundFacts {
  std::uint64_t remaining_pages = 0;       // written and not yet copied, at this moment
  double copy_bytes_per_second = 0;        // measured in the rounds so far; 0: not known
  std::chrono::microseconds scan_time{0};  // of one collection, measured
  std::chrono::microseconds elapsed{0};    // since the first round began
};

enum class CutReason : std::uint8_t {
  kNone,
  kFitsBudget,
  kScanDominates,  // copying takes no longer than the scan, which no round makes shorter
  kStoppedShrinking,
  kRoundLimit,
  kTimeLimit,
  kCannotRearm,  // the tracker works on a stopped guest only: no rounds
};
std::string_view to_string(CutReason reason);

struct PreCopyVerdict {
  bool copy_again = false;
  CutReason reason = CutReason::kNone;          // why the rounds are over
  std::chrono::microseconds expected_pause{0};  // of scan and copy, if the guest were stopped now
  bool operator==(const PreCopyVerdict&) const = default;
};

// Value type.
class PreCopy {
 public:
  explicit PreCopy(PreCopyLimits limits) : limits_(limits) {}
  // To be asked before every round, the first included.
  PreCopyVerdict next(const RoundFacts& facts);

 private:
  PreCopyLimits limits_;
  unsigned rounds_ = 0;
  unsigned stalled_ = 0;
  std::uint64_t last_remaining_ = 0;
};

}  // namespace space::node::capture
