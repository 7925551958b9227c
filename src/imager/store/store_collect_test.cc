// SPDX-License-Identifier: Apache-2.0
// The collector: what it frees, what it must not, and who is refused because of it.
#include <gtest/gtest.h>

#include <algorithm>

#include "imager/store/testing/harness.h"

namespace space::imager::store {
namespace {

using namespace testing;

const SessionId kA = session_named('a');
const SessionId kB = session_named('b');

#define ASSERT_OK(result) ASSERT_TRUE((result).ok()) << (result).error().describe()

std::vector<Change> some_pages(std::uint64_t first, std::size_t count, std::uint64_t tag) {
  std::vector<Change> changes;
  for (std::size_t i = 0; i < count; ++i) changes.push_back({MapKind::kMemory, first + i, page_of(tag + i)});
  return changes;
}

void expect_clean(Harness& h) {
  auto report = h.store->check(CheckDepth::kEverything);
  ASSERT_OK(report);
  for (const Damage& damage : report->damage) ADD_FAILURE() << damage.object << ": " << damage.detail;
}

std::size_t packs(Harness& h) {
  return h.store->stat()->packs;
}

TEST(Collector, WhatIsRemovedGoesInTheSecondStepAndWhatIsSharedStays) {
  Harness h;
  auto first = take(*h.store, ingest_options(kA, {}), some_pages(0, 20, 1));
  ASSERT_OK(first);
  auto second = take(*h.store, ingest_options(kA, first->id), some_pages(5, 2, 100));
  ASSERT_OK(second);
  auto third = take(*h.store, ingest_options(kA, second->id), some_pages(5, 2, 200));
  ASSERT_OK(third);
  auto before = packs(h);
  ASSERT_OK(h.store->remove(kTenant, kA, std::vector{second->id}, {}));
  EXPECT_EQ(h.store->list(kTenant, kA)->size(), 2u);
  auto one = h.store->collect(kTenant);
  ASSERT_OK(one);
  EXPECT_EQ(one->deleted_objects, 0u);
  EXPECT_GT(one->doomed_objects, 0u);
  auto two = h.store->collect(kTenant);
  ASSERT_OK(two);
  EXPECT_EQ(two->deleted_objects, one->doomed_objects);
  EXPECT_LT(packs(h), before);
  EXPECT_TRUE(read_map(*h.store, kTenant, first->id, MapKind::kMemory).ok());
  EXPECT_TRUE(read_map(*h.store, kTenant, third->id, MapKind::kMemory).ok());
  expect_clean(h);
  EXPECT_TRUE(h.store->check(CheckDepth::kTrees)->unreferenced.empty());
}

TEST(Collector, AWriterThatBeganBeforeItIsRefusedAndSucceedsAnew) {
  Harness h;
  auto first = take(*h.store, ingest_options(kA, {}), some_pages(0, 4, 1));
  ASSERT_OK(first);
  auto doomed = take(*h.store, ingest_options(kA, first->id), some_pages(8, 4, 100));
  ASSERT_OK(doomed);
  h.advance(std::chrono::seconds(1));  // what is written from now on is under the writer's lease
  auto stopped = h.store->begin_ingest(ingest_options(kB, {}));
  ASSERT_OK(stopped);
  Bytes page = page_of(100);  // what only the doomed snapshot holds
  std::vector<ChangedUnit> units{{0, page.data()}};
  ASSERT_OK((*stopped)->add(MapKind::kMemory, units));
  ASSERT_EQ((*stopped)->stats().deduplicated_units, 1u);
  ASSERT_OK(h.store->remove(kTenant, kA, std::vector{doomed->id}, {}));
  ASSERT_OK(h.store->collect(kTenant));
  ASSERT_OK(h.store->collect(kTenant));
  EXPECT_EQ((*stopped)->commit({}, {}).error().reason, "store.generation_old");
  auto again = take(*h.store, ingest_options(kB, {}), {{MapKind::kMemory, 0, page}});
  ASSERT_OK(again);
  EXPECT_TRUE(read_map(*h.store, kTenant, again->id, MapKind::kMemory).ok());
  expect_clean(h);
}

TEST(Collector, AWriterInAnotherProcessIsRefusedToo) {
  Harness h;
  auto first = take(*h.store, ingest_options(kA, {}), some_pages(0, 4, 1));
  ASSERT_OK(first);
  os::SeededRandom random(77);
  auto other = open_store(*h.objects, h.keys, random, h.clock, h.options);
  h.advance(std::chrono::seconds(1));
  auto stopped = other->begin_ingest(ingest_options(kB, first->id));
  ASSERT_OK(stopped);
  ASSERT_OK(h.store->remove(kTenant, kA, std::vector{first->id}, {}));
  ASSERT_OK(h.store->collect(kTenant));
  EXPECT_EQ((*stopped)->commit({}, {}).error().reason, "store.generation_old");
}

TEST(Collector, PacksOfAnIngestUnderWayAreKept) {
  Harness h;
  auto ingest = h.store->begin_ingest(ingest_options(kA, {}));
  ASSERT_OK(ingest);
  Bytes page = page_of(1);
  std::vector<ChangedUnit> units{{0, page.data()}};
  ASSERT_OK((*ingest)->add(MapKind::kMemory, units));
  auto step = h.store->collect(kTenant);
  ASSERT_OK(step);
  EXPECT_EQ(step->kept_by_lease, 1u);
  EXPECT_EQ(step->doomed_objects, 0u);
  auto committed = (*ingest)->commit({}, {});
  ASSERT_OK(committed);
  EXPECT_TRUE(read_map(*h.store, kTenant, committed->id, MapKind::kMemory).ok());
}

TEST(Collector, WhatADeadWriterLeftGoesWhenItsLeaseHasRunOut) {
  Harness h;
  ASSERT_OK(take(*h.store, ingest_options(kA, {}), some_pages(0, 4, 1)));
  auto clean = h.files.files_for_test();
  auto ingest = h.store->begin_ingest(ingest_options(kA, {}));
  ASSERT_OK(ingest);
  Bytes page = random_page(1);
  std::vector<ChangedUnit> units{{0, page.data()}};
  ASSERT_OK((*ingest)->add(MapKind::kMemory, units));
  h.files.inject({blob::FaultKind::kCrash, 1});
  ingest->reset();
  h.crash();
  h.advance(h.options.lease_ttl + std::chrono::seconds(1));
  ASSERT_OK(h.store->collect(kTenant));
  ASSERT_OK(h.store->collect(kTenant));
  EXPECT_EQ(h.store->stat()->packs, 2u);
  EXPECT_TRUE(h.store->check(CheckDepth::kTrees)->unreferenced.empty());
}

TEST(Collector, ASnapshotHeldOpenOutlivesItsRemoval) {
  Harness h;
  auto taken = take(*h.store, ingest_options(kA, {}), some_pages(0, 4, 1));
  ASSERT_OK(taken);
  auto opened = h.store->open(kTenant, taken->id);
  ASSERT_OK(opened);
  ASSERT_OK(h.store->remove(kTenant, kA, std::vector{taken->id}, {}));
  os::SeededRandom random(5);
  auto other = open_store(*h.objects, h.keys, random, h.clock, h.options);  // sees the lease on disk only
  for (int i = 0; i < 3; ++i) ASSERT_OK(other->collect(kTenant));
  Bytes page(kPageBytes);
  ASSERT_OK((*opened)->map(MapKind::kMemory).read(2, page));
  EXPECT_EQ(page, page_of(3));
  opened->reset();
  ASSERT_OK(other->collect(kTenant));
  ASSERT_OK(other->collect(kTenant));
  EXPECT_EQ(packs(h), 0u);
}

TEST(Collector, RenewedLeasesHoldBeyondTheirFirstTime) {
  Harness h;
  auto taken = take(*h.store, ingest_options(kA, {}), some_pages(0, 4, 1));
  ASSERT_OK(taken);
  auto opened = h.store->open(kTenant, taken->id);
  ASSERT_OK(opened);
  ASSERT_OK(h.store->remove(kTenant, kA, std::vector{taken->id}, {}));
  h.advance(h.options.lease_ttl - std::chrono::seconds(1));
  ASSERT_OK(h.store->renew_leases());
  h.advance(std::chrono::seconds(2));
  os::SeededRandom random(5);
  auto other = open_store(*h.objects, h.keys, random, h.clock, h.options);
  for (int i = 0; i < 3; ++i) ASSERT_OK(other->collect(kTenant));
  EXPECT_EQ(packs(h), 2u);
}

TEST(Collector, OneThatDiedAtWorkKeepsOthersOutOnlyForItsLease) {
  Harness h;
  auto taken = take(*h.store, ingest_options(kA, {}), some_pages(0, 4, 1));
  ASSERT_OK(taken);
  ASSERT_OK(h.store->remove(kTenant, kA, std::vector{taken->id}, {}));
  h.files.inject({blob::FaultKind::kCrash, 9});  // behind the first swap of its record
  ASSERT_FALSE(h.store->collect(kTenant).ok());
  h.crash();
  EXPECT_EQ(h.store->collect(kTenant).error().reason, "store.gc_busy");
  h.advance(h.options.lease_ttl + std::chrono::seconds(1));
  EXPECT_TRUE(h.store->collect(kTenant).ok());
}

TEST(Collector, DamageStopsItBeforeItDeletes) {
  Harness h;
  auto taken = take(*h.store, ingest_options(kA, {}), some_pages(0, 4, 1));
  ASSERT_OK(taken);
  ASSERT_OK(take(*h.store, ingest_options(kB, {}), some_pages(0, 4, 50)));
  for (const std::string& path : h.files.files_for_test()) {
    if (path.find("/heads/" + kA.str()) == std::string::npos) continue;
    h.files.corrupt_for_test(path, [](Bytes& bytes) { bytes[70] ^= std::byte{1}; });
  }
  h.reopen();
  EXPECT_EQ(h.store->collect(kTenant).error().reason, "store.gc_blocked");
  EXPECT_EQ(packs(h), 4u);
}

TEST(Collector, ASessionWhoseHeadVanishedIsNotGarbage) {
  Harness h;
  ASSERT_OK(take(*h.store, ingest_options(kA, {}), some_pages(0, 4, 1)));
  for (const std::string& path : h.files.files_for_test()) {
    if (path.find("/heads/" + kA.str()) != std::string::npos) h.files.remove_for_test(path);
  }
  h.reopen();
  EXPECT_EQ(h.store->collect(kTenant).error().reason, "store.gc_blocked");
  auto repaired = h.store->repair(kTenant, kA);
  ASSERT_OK(repaired);
  EXPECT_EQ(h.store->list(kTenant, kA)->size(), 1u);
  expect_clean(h);
  EXPECT_TRUE(h.store->collect(kTenant).ok());
}

TEST(Collector, ABaseImageStaysWhileATenantBuildsOnIt) {
  Harness h;
  IngestOptions publish = ingest_options(kA, {});
  publish.tenant = kBaseTenant;
  auto base = take(*h.store, publish, some_pages(0, 4, 1));
  ASSERT_OK(base);
  auto fork = h.store->fork(kTenant, base->id, kB, {});
  ASSERT_OK(fork);
  ASSERT_OK(h.store->remove_session(kBaseTenant, kA, {}));
  for (int i = 0; i < 3; ++i) ASSERT_OK(h.store->collect(kBaseTenant));
  EXPECT_TRUE(read_map(*h.store, kTenant, fork->id, MapKind::kMemory).ok());
  ASSERT_OK(h.store->remove_session(kTenant, kB, {}));
  for (int i = 0; i < 3; ++i) ASSERT_OK(h.store->collect(kBaseTenant));
  EXPECT_EQ(packs(h), 0u);
}

TEST(Collector, ARemovedSessionLeavesNothingAndCannotBeWrittenTo) {
  Harness h;
  auto taken = take(*h.store, ingest_options(kA, {}), some_pages(0, 4, 1));
  ASSERT_OK(taken);
  auto late = h.store->begin_ingest(ingest_options(kA, taken->id));
  ASSERT_OK(late);
  ASSERT_OK(h.store->remove_session(kTenant, kA, {}));
  EXPECT_EQ((*late)->commit({}, {}).error().code, Code::kNotFound);
  late->reset();
  EXPECT_EQ(h.store->begin_ingest(ingest_options(kA, {})).error().reason, "store.session_ended");
  EXPECT_TRUE(h.store->sessions(kTenant)->empty());
  for (int i = 0; i < 3; ++i) ASSERT_OK(h.store->collect(kTenant));
  for (const std::string& path : h.files.files_for_test()) {
    EXPECT_TRUE(path.find("/ring/") != std::string::npos || path.find("/gc/") != std::string::npos) << path;
  }
}

TEST(Collector, GraceDelaysBothPhases) {
  StoreOptions options = small_options();
  options.gc_grace = std::chrono::seconds(100);
  Harness h(1, options);
  auto taken = take(*h.store, ingest_options(kA, {}), some_pages(0, 4, 1));
  ASSERT_OK(taken);
  ASSERT_OK(h.store->remove(kTenant, kA, std::vector{taken->id}, {}));
  EXPECT_EQ(h.store->collect(kTenant)->doomed_objects, 0u);
  h.advance(std::chrono::seconds(101));
  EXPECT_GT(h.store->collect(kTenant)->doomed_objects, 0u);
  EXPECT_EQ(h.store->collect(kTenant)->deleted_objects, 0u);
  h.advance(std::chrono::seconds(101));
  EXPECT_GT(h.store->collect(kTenant)->deleted_objects, 0u);
}

}  // namespace
}  // namespace space::imager::store
