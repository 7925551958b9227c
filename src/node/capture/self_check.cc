// SPDX-License-Identifier: Apache-2.0
#include "node/capture/self_check.h"

#include <vector>

#include "node/capture/capture_arena.h"

namespace space::node::capture {
namespace {

constexpr std::uint64_t kChunkPages =
    2048;  // 8 MiB at a time, so that the check needs the same memory for any guest

}  // namespace

Result<SelfCheckReport> SelfCheck::check_all(std::span<const PageRun> known, const std::stop_token& stop) {
  const PageRun all{0, target_.range().pages()};
  return check({&all, 1}, known, stop);
}

Result<SelfCheckReport> SelfCheck::confirm(std::span<const PageRun> suspects,
                                           std::span<const PageRun> known) {
  return check(suspects, known, {});
}

Result<SelfCheckReport> SelfCheck::check(std::span<const PageRun> pages, std::span<const PageRun> known,
                                         const std::stop_token& stop) {
  SPACE_TRY(CaptureArena scratch, CaptureArena::create(kChunkPages * kPageBytes));
  SPACE_CHECK_OK(scratch.reserve(kChunkPages * kPageBytes));
  std::vector<PageDigest> stored(kChunkPages);
  std::vector<PagePlacement> placements;
  SelfCheckReport report;
  PageRuns changed;
  for (const PageRun& chunk : split_runs(pages, kChunkPages)) {
    if (stop.stop_requested())
      return make_error(Code::kAborted, "capture.cancelled", "the self-check was cancelled");
    placements.clear();
    for (std::uint64_t i = 0; i < chunk.count; ++i) placements.push_back({chunk.first + i, i});
    SPACE_TRY(CopyStats copied, copier_.copy(placements, scratch.data()));
    report.checked_pages += copied.pages;
    SPACE_CHECK_OK(digests_.stored(chunk.first, std::span(stored).first(chunk.count)));
    for (std::uint64_t i = 0; i < chunk.count; ++i) {
      ByteView content(scratch.data() + i * kPageBytes, kPageBytes);
      if (digests_.of_content(content) != stored[i]) append_run(changed, chunk.first + i, 1);
    }
  }
  report.changed_pages = count_pages(changed);
  // Asked after the pages were read: whatever was written before we read a page is in this report.
  SPACE_TRY(PageRuns reported, tracker_.peek());
  report.unreported = difference_of(changed, union_of(reported, known));
  return report;
}

}  // namespace space::node::capture
