// SPDX-License-Identifier: Apache-2.0
#include "node/capture/memory_capture.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "lib/base/check.h"
#include "node/capture/zero_page.h"

namespace space::node::capture {
namespace {

constexpr std::uint32_t kNoSlot = std::numeric_limits<std::uint32_t>::max();

std::chrono::microseconds since(const Clock& clock, Monotonic begin) {
  return std::chrono::duration_cast<std::chrono::microseconds>(clock.now() - begin);
}

}  // namespace

std::span<const BatchEntry> CapturedMemory::index() const {
  // SAFETY: finish() put `entries` entries there, aligned to a page, and nobody writes to them again.
  return {reinterpret_cast<const BatchEntry*>(arena.data() + index_offset), entries};
}

MemoryCapture::MemoryCapture(const Target& target, DirtyLedger& ledger, PageCopier& copier,
                             CaptureArena arena, CaptureOptions options, const Clock& clock)
    : target_(target),
      ledger_(ledger),
      copier_(copier),
      arena_(std::move(arena)),
      options_(options),
      clock_(clock),
      slot_of_(target.range().pages(), kNoSlot) {
  SPACE_CHECK(!ledger_.interval_open());
  SPACE_CHECK(target.range().pages() < kNoSlot);
}

MemoryCapture::~MemoryCapture() {
  abort();
}

Error MemoryCapture::fail(Error error) {
  abort();
  return error;
}

// Gives each page its slot: the one it has, or the next free one.
Result<void> MemoryCapture::place(const PageRuns& pages) {
  placements_.clear();
  placements_.reserve(count_pages(pages));
  for (const PageRun& run : pages) {
    for (std::uint64_t page = run.first; page < run.end(); ++page) {
      std::uint32_t& slot = slot_of_[page];
      if (slot == kNoSlot) slot = slots_++;
      placements_.push_back({page, slot});
    }
  }
  return arena_.reserve(std::uint64_t{slots_} * kPageBytes);
}

Result<MemoryCapture::Round> MemoryCapture::round() {
  Round out;
  auto begin = clock_.now();
  SPACE_TRY(Collected collected, ledger_.collect());
  out.scan_time = since(clock_, begin);
  everything_ = everything_ || collected.everything;
  out.pages = count_pages(collected.pages);
  SPACE_CHECK_OK(place(collected.pages));
  SPACE_TRY(out.copy, copier_.copy(placements_, arena_.data()));
  scan_time_ = out.scan_time;
  // Small rounds measure call overhead, not speed.
  if (out.pages >= 256) bytes_per_second_ = out.copy.bytes_per_second();
  return out;
}

Result<PreCopyReport> MemoryCapture::copy_while_running(const std::stop_token& stop) {
  SPACE_CHECK(stage_ == Stage::kRunning);
  PreCopyReport report;
  PreCopy decide(options_.precopy);
  auto begin = clock_.now();
  std::uint64_t left = 0;
  for (;;) {
    if (stop.stop_requested())
      return fail(make_error(Code::kAborted, "capture.cancelled", "the snapshot was cancelled"));
    auto peek_begin = clock_.now();
    auto remaining = ledger_.remaining();
    if (!remaining.ok()) return fail(std::move(remaining).error());
    scan_time_ = since(clock_, peek_begin);
    left = *remaining;
    if (!ledger_.traits().rearms_while_running) {
      report.reason = CutReason::kCannotRearm;
      break;
    }
    PreCopyVerdict verdict = decide.next({left, bytes_per_second_, scan_time_, since(clock_, begin)});
    report.expected_pause = verdict.expected_pause;
    report.reason = verdict.reason;
    if (!verdict.copy_again) break;
    auto done = round();
    if (!done.ok()) return fail(std::move(done).error());
    ++report.rounds;
    report.copied_pages += done->pages;
  }
  // Memory for the pause, with some to spare for what is written until the guest stands.
  auto room = static_cast<std::uint64_t>(static_cast<double>(left) * options_.spare) + 256;
  auto pages = std::min<std::uint64_t>(slots_ + room, target_.range().pages());
  placements_.reserve(room);
  if (auto reserved = arena_.reserve(pages * kPageBytes); !reserved.ok())
    return fail(std::move(reserved).error());
  return report;
}

Result<CutReport> MemoryCapture::copy_while_stopped() {
  SPACE_CHECK(stage_ == Stage::kRunning);
  auto done = round();
  if (!done.ok()) return fail(std::move(done).error());
  stage_ = Stage::kStopped;
  CutReport report;
  report.copied_pages = done->pages;
  report.scan_time = done->scan_time;
  report.copy_time = std::chrono::duration_cast<std::chrono::microseconds>(done->copy.time);
  return report;
}

Result<CapturedMemory> MemoryCapture::finish() {
  SPACE_CHECK(stage_ == Stage::kStopped);
  std::uint64_t index_offset = std::uint64_t{slots_} * kPageBytes;
  if (auto room = arena_.reserve(index_offset + std::uint64_t{slots_} * sizeof(BatchEntry)); !room.ok()) {
    return fail(std::move(room).error());
  }
  std::uint64_t entries = 0;
  std::uint64_t zeros = 0;
  std::byte* out = arena_.data() + index_offset;
  for (std::uint64_t page = 0; page < slot_of_.size(); ++page) {
    std::uint32_t slot = slot_of_[page];
    if (slot == kNoSlot) continue;
    bool zero = is_zero_page(arena_.data() + std::uint64_t{slot} * kPageBytes);
    BatchEntry entry{page, slot, zero ? kZeroPage : 0};
    std::memcpy(out + entries * sizeof entry, &entry, sizeof entry);
    ++entries;
    zeros += zero ? 1 : 0;
  }
  stage_ = Stage::kFinished;
  return CapturedMemory{std::move(arena_),       index_offset, entries,          zeros,
                        target_.range().pages(), everything_,  ledger_.tracker()};
}

void MemoryCapture::commit() {
  SPACE_CHECK(stage_ == Stage::kFinished);
  stage_ = Stage::kDone;
  SPACE_CHECK(ledger_.commit());
}

void MemoryCapture::abort() {
  if (stage_ == Stage::kDone) return;
  stage_ = Stage::kDone;
  ledger_.abort();
}

}  // namespace space::node::capture
