// SPDX-License-Identifier: Apache-2.0
#include "node/capture/page_run.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace space::node::capture {
namespace {

PageRuns from_set(const std::set<std::uint64_t>& pages) {
  PageRuns runs;
  for (std::uint64_t page : pages) append_run(runs, page, 1);
  return runs;
}
std::set<std::uint64_t> to_set(std::span<const PageRun> runs) {
  std::set<std::uint64_t> pages;
  for (const PageRun& run : runs) {
    for (std::uint64_t page = run.first; page < run.end(); ++page) pages.insert(page);
  }
  return pages;
}
std::set<std::uint64_t> random_pages(std::mt19937& random) {
  std::set<std::uint64_t> pages;
  for (unsigned i = random() % 60; i > 0; --i) pages.insert(random() % 80);
  return pages;
}

TEST(PageRuns, NeighboursAreOneRun) {
  PageRuns runs;
  append_run(runs, 3, 2);
  append_run(runs, 5, 1);
  append_run(runs, 7, 1);
  append_run(runs, 7, 4);
  EXPECT_EQ((PageRuns{{3, 3}, {7, 4}}), runs);
  EXPECT_EQ(7u, count_pages(runs));
}

TEST(PageRuns, SetOperationsEqualThoseOfSets) {
  std::mt19937 random(20261130);
  for (int i = 0; i < 2000; ++i) {
    auto a = random_pages(random);
    auto b = random_pages(random);
    auto both = a;
    both.insert(b.begin(), b.end());
    auto only_a = a;
    for (auto page : b) only_a.erase(page);
    ASSERT_EQ(from_set(both), union_of(from_set(a), from_set(b)));
    ASSERT_EQ(from_set(only_a), difference_of(from_set(a), from_set(b)));
    ASSERT_EQ(a.contains(40), contains(from_set(a), 40));
  }
}

TEST(PageRuns, SplittingKeepsEveryPageOnce) {
  const PageRuns runs = {{1, 1}, {10, 25}};
  auto parts = split_runs(runs, 10);
  EXPECT_EQ((std::vector<PageRun>{{1, 1}, {10, 10}, {20, 10}, {30, 5}}), parts);
  EXPECT_EQ(to_set(runs), to_set(parts));
}

}  // namespace
}  // namespace space::node::capture
