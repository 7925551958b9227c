// SPDX-License-Identifier: Apache-2.0
#include "node/capture/page_run.h"

#include <algorithm>

#include "lib/base/check.h"

namespace space::node::capture {

void append_run(PageRuns& runs, std::uint64_t first, std::uint64_t count) {
  if (count == 0) return;
  if (!runs.empty() && first <= runs.back().end()) {
    SPACE_CHECK(first >= runs.back().first);
    std::uint64_t end = std::max(runs.back().end(), first + count);
    runs.back().count = end - runs.back().first;
    return;
  }
  runs.push_back({first, count});
}

std::uint64_t count_pages(std::span<const PageRun> runs) {
  std::uint64_t pages = 0;
  for (const PageRun& run : runs) pages += run.count;
  return pages;
}

bool contains(std::span<const PageRun> runs, std::uint64_t page) {
  auto after = std::upper_bound(runs.begin(), runs.end(), page,
                                [](std::uint64_t wanted, const PageRun& run) { return wanted < run.first; });
  return after != runs.begin() && page < std::prev(after)->end();
}

PageRuns union_of(std::span<const PageRun> a, std::span<const PageRun> b) {
  PageRuns out;
  out.reserve(a.size() + b.size());
  auto left = a.begin();
  auto right = b.begin();
  while (left != a.end() || right != b.end()) {
    bool take_left = right == b.end() || (left != a.end() && left->first <= right->first);
    const PageRun& run = take_left ? *left++ : *right++;
    append_run(out, run.first, run.count);
  }
  return out;
}

PageRuns difference_of(std::span<const PageRun> a, std::span<const PageRun> b) {
  PageRuns out;
  auto hole = b.begin();
  for (const PageRun& run : a) {
    std::uint64_t at = run.first;
    while (hole != b.end() && hole->end() <= at) ++hole;
    for (auto cut = hole; cut != b.end() && cut->first < run.end(); ++cut) {
      if (cut->first > at) append_run(out, at, cut->first - at);
      at = std::max(at, cut->end());
    }
    if (at < run.end()) append_run(out, at, run.end() - at);
  }
  return out;
}

std::vector<PageRun> split_runs(std::span<const PageRun> runs, std::uint64_t max_pages) {
  SPACE_CHECK(max_pages > 0);
  std::vector<PageRun> out;
  for (const PageRun& run : runs) {
    for (std::uint64_t at = run.first; at < run.end(); at += max_pages) {
      out.push_back({at, std::min(max_pages, run.end() - at)});
    }
  }
  return out;
}

}  // namespace space::node::capture
