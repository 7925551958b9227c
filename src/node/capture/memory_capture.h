// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory part of one snapshot, from the first round of pre-copy to the batch that the imager stores.
//
//   MemoryCapture capture(ledger, copier, std::move(arena), limits);
//   capture.copy_while_running(stop)   // the guest runs; rounds until the rest is small
//     … hold, stop the guest …
//   capture.copy_while_stopped()       // the last round: now the arena equals the guest's memory
//     … device state, cut the disk, let the guest run …
//   auto batch = capture.finish()      // orders pages, finds zeros, builds the index; no longer in the pause
//     … the imager stores the batch and swaps the head …
//   capture.commit()                   // only now are the pages forgotten
//
// Whatever fails, or if the object just goes away, the interval is aborted and the next snapshot covers these
// pages again. A page that is dirtied after it was copied is copied again over its earlier content.
//
// Resource type. Blocking; one thread at a time; a pool thread of node. Errors: those of Target, PageCopier
// and CaptureArena; aborted capture.cancelled.

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "node/capture/capture_arena.h"
#include "node/capture/dirty_ledger.h"
#include "node/capture/page_copier.h"
#include "node/capture/precopy.h"

namespace space::node::capture {

// One entry of the index in the arena, in the machine's byte order: both readers are on it.
struct BatchEntry {
  std::uint64_t page = 0;   // ascending through the index
  std::uint32_t slot = 0;   // its content is at slot * kPageBytes
  std::uint32_t flags = 0;  // kZeroPage: all zero; the slot need not be read
  bool operator==(const BatchEntry&) const = default;
};
static_assert(sizeof(BatchEntry) == 16);
inline constexpr std::uint32_t kZeroPage = 1;

// What a snapshot changes in memory. Contents and index lie in one memfd: slots from offset 0, the index at
// index_offset. Resource type, move only.
struct CapturedMemory {
  CaptureArena arena;
  std::uint64_t index_offset = 0;
  std::uint64_t entries = 0;
  std::uint64_t zero_pages = 0;
  std::uint64_t guest_pages = 0;  // of the whole range
  bool everything = false;        // the store must compare: the pages may equal what it has
  TrackerKind tracker = TrackerKind::kWriteProtect;

  [[nodiscard]] std::span<const BatchEntry> index() const;
  [[nodiscard]] const std::byte* content(const BatchEntry& entry) const {
    return arena.data() + entry.slot * kPageBytes;
  }
};

struct PreCopyReport {
  unsigned rounds = 0;
  std::uint64_t copied_pages = 0;  // with repetitions
  CutReason reason = CutReason::kNone;
  std::chrono::microseconds expected_pause{0};
};
struct CutReport {
  std::uint64_t copied_pages = 0;
  std::chrono::microseconds scan_time{0};
  std::chrono::microseconds copy_time{0};
};

struct CaptureOptions {
  PreCopyLimits precopy;
  // Room kept beyond what is expected in the pause, so that no memory has to be found while the guest stands
  // still.
  double spare = 1.5;
};

class MemoryCapture {
 public:
  // The references must outlive the capture; no interval of `ledger` may be open.
  MemoryCapture(const Target& target, DirtyLedger& ledger, PageCopier& copier, CaptureArena arena,
                CaptureOptions options, const Clock& clock);
  ~MemoryCapture();
  MemoryCapture(const MemoryCapture&) = delete;
  MemoryCapture& operator=(const MemoryCapture&) = delete;

  // Rounds while the guest runs. With a tracker that can't re-arm meanwhile only reserves memory. May be left
  // out.
  Result<PreCopyReport> copy_while_running(const std::stop_token& stop = {});
  // The last round. Precondition: the guest is stopped and its block requests are drained.
  Result<CutReport> copy_while_stopped();
  // Precondition: copy_while_stopped() succeeded. The guest may run.
  Result<CapturedMemory> finish();
  // The pages are durable. Precondition: finish() succeeded.
  void commit();
  // Nothing was stored. Fine in any state but after commit().
  void abort();

 private:
  enum class Stage : std::uint8_t { kRunning, kStopped, kFinished, kDone };
  struct Round {
    std::uint64_t pages = 0;
    std::chrono::microseconds scan_time{0};
    CopyStats copy;
  };
  Result<Round> round();
  Result<void> place(const PageRuns& pages);
  Error fail(Error error);

  const Target& target_;
  DirtyLedger& ledger_;
  PageCopier& copier_;
  CaptureArena arena_;
  CaptureOptions options_;
  const Clock& clock_;
  Stage stage_ = Stage::kRunning;
  bool everything_ = false;
  std::vector<std::uint32_t> slot_of_;  // by page; kNoSlot where the page was not copied
  std::uint32_t slots_ = 0;
  std::vector<PagePlacement> placements_;  // of the present round
  double bytes_per_second_ = 0;
  std::chrono::microseconds scan_time_{0};
};

}  // namespace space::node::capture
