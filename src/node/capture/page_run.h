// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sets of pages as sorted runs. Page numbers count 4 KiB pages from the start of the guest's memory. Pure;
// value types.

#include <cstdint>
#include <span>
#include <vector>

namespace space::node::capture {

inline constexpr std::uint64_t kPageBytes = 4096;

struct PageRun {
  std::uint64_t first = 0;
  std::uint64_t count = 0;  // at least 1 inside PageRuns
  [[nodiscard]] std::uint64_t end() const { return first + count; }
  bool operator==(const PageRun&) const = default;
};

// Sorted by `first`, disjoint, and no two runs touch.
using PageRuns = std::vector<PageRun>;

// Appends pages in ascending order; a run that touches or overlaps the last is merged with it.
// Precondition: `first` is not below the first page of the last run.
void append_run(PageRuns& runs, std::uint64_t first, std::uint64_t count);

std::uint64_t count_pages(std::span<const PageRun> runs);
bool contains(std::span<const PageRun> runs, std::uint64_t page);  // O(log n)
PageRuns union_of(std::span<const PageRun> a, std::span<const PageRun> b);
// Pages of `a` that are not in `b`.
PageRuns difference_of(std::span<const PageRun> a, std::span<const PageRun> b);
// The same pages in runs of at most `max_pages` (no longer PageRuns: neighbours touch). For prefetch lists.
std::vector<PageRun> split_runs(std::span<const PageRun> runs, std::uint64_t max_pages);

}  // namespace space::node::capture
