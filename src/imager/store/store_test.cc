// SPDX-License-Identifier: Apache-2.0
// What the store promises, on a disk that works.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>

#include "imager/store/testing/harness.h"

namespace space::imager::store {
namespace {

using namespace testing;

const SessionId kA = session_named('a');
const SessionId kB = session_named('b');

std::vector<Change> pages(std::initializer_list<std::pair<std::uint64_t, std::uint64_t>> unit_and_tag) {
  std::vector<Change> changes;
  for (auto [unit, tag] : unit_and_tag) changes.push_back({MapKind::kMemory, unit, page_of(tag)});
  return changes;
}

bool page_is(Store& store, const SnapshotId& snapshot, std::uint64_t unit, const Bytes& expected) {
  auto opened = store.open(kTenant, snapshot);
  if (!opened.ok()) return false;
  Bytes got(kPageBytes);
  return (*opened)->map(MapKind::kMemory).read(unit, got).ok() && got == expected;
}

#define ASSERT_OK(result) ASSERT_TRUE((result).ok()) << (result).error().describe()

TEST(Store, MapsAndDeviceStateComeBackAsGivenFromANewProcess) {
  Harness h;
  Bytes state = random_page(9, 100'000);
  std::vector<Change> changes = pages({{0, 1}, {1, 2}, {255, 3}, {256, 4}, {1023, 5}});
  changes.push_back({MapKind::kDisk, 15, page_of(6, kBlockBytes)});
  auto taken = take(*h.store, ingest_options(kA, {}), changes, meta_at(h.clock.wall(), "first"), state);
  ASSERT_OK(taken);
  h.crash();
  Model memory{{0, page_of(1)}, {1, page_of(2)}, {255, page_of(3)}, {256, page_of(4)}, {1023, page_of(5)}};
  auto got = read_map(*h.store, kTenant, taken->id, MapKind::kMemory);
  ASSERT_OK(got);
  EXPECT_EQ(*got, expected_map(memory, MapKind::kMemory, kMemoryBytes));
  auto disk = read_map(*h.store, kTenant, taken->id, MapKind::kDisk);
  ASSERT_OK(disk);
  EXPECT_EQ(*disk, expected_map({{15, page_of(6, kBlockBytes)}}, MapKind::kDisk, kDiskBytes));
  auto opened = h.store->open(kTenant, taken->id);
  ASSERT_OK(opened);
  auto device = (*opened)->device_state();
  ASSERT_OK(device);
  EXPECT_EQ(*device, state);
  EXPECT_EQ((*opened)->record().info.name, "first");
}

TEST(Store, AChildChangesOnlyWhatItWasGivenAndItsParentStays) {
  Harness h;
  auto first = take(*h.store, ingest_options(kA, {}), pages({{0, 1}, {1, 2}}));
  ASSERT_OK(first);
  auto changes = pages({{1, 7}});
  changes.push_back({MapKind::kMemory, 0, std::nullopt});
  auto second = take(*h.store, ingest_options(kA, first->id), changes);
  ASSERT_OK(second);
  EXPECT_TRUE(page_is(*h.store, first->id, 0, page_of(1)));
  EXPECT_TRUE(page_is(*h.store, first->id, 1, page_of(2)));
  EXPECT_TRUE(page_is(*h.store, second->id, 0, Bytes(kPageBytes)));
  EXPECT_TRUE(page_is(*h.store, second->id, 1, page_of(7)));
}

TEST(Store, UnitsThatDidNotChangeAreFoundByTheirHash) {
  Harness h;
  auto first = take(*h.store, ingest_options(kA, {}), pages({{0, 1}, {1, 2}}));
  ASSERT_OK(first);
  auto ingest = h.store->begin_ingest(ingest_options(kA, first->id));
  ASSERT_OK(ingest);
  Bytes same = page_of(1);
  Bytes other = page_of(3);
  std::vector<ChangedUnit> units{{0, same.data()}, {1, other.data()}, {2, nullptr}};
  ASSERT_OK((*ingest)->add(MapKind::kMemory, units));
  EXPECT_EQ((*ingest)->stats().unchanged_units, 2u);
  EXPECT_EQ((*ingest)->stats().stored_units, 1u);
  auto committed = (*ingest)->commit({}, {});
  ASSERT_OK(committed);
  EXPECT_EQ(committed->changed_bytes, kPageBytes);
}

TEST(Store, EqualContentOfATenantIsStoredOnceEvenAfterARestart) {
  Harness h;
  ASSERT_OK(take(*h.store, ingest_options(kA, {}), pages({{0, 1}, {5, 1}})));
  h.reopen();
  auto ingest = h.store->begin_ingest(ingest_options(kB, {}));
  ASSERT_OK(ingest);
  Bytes same = page_of(1);
  std::vector<ChangedUnit> units{{17, same.data()}};
  ASSERT_OK((*ingest)->add(MapKind::kMemory, units));
  EXPECT_EQ((*ingest)->stats().deduplicated_units, 1u);
  EXPECT_EQ((*ingest)->stats().stored_units, 0u);
  auto committed = (*ingest)->commit({}, {});
  ASSERT_OK(committed);
  EXPECT_TRUE(page_is(*h.store, committed->id, 17, same));
}

TEST(Store, ADroppedIngestLeavesNothingAndIsNotReferredTo) {
  Harness h;
  ASSERT_OK(take(*h.store, ingest_options(kA, {}), pages({{0, 1}})));
  auto before = h.files.files_for_test().size();
  Bytes page = page_of(2);
  std::vector<ChangedUnit> units{{0, page.data()}};
  auto dropped = h.store->begin_ingest(ingest_options(kA, {}));
  ASSERT_OK(dropped);
  ASSERT_OK((*dropped)->add(MapKind::kMemory, units));
  auto other = h.store->begin_ingest(ingest_options(kB, {}));
  ASSERT_OK(other);
  ASSERT_OK((*other)->add(MapKind::kMemory, units));
  EXPECT_EQ((*other)->stats().deduplicated_units, 0u);
  dropped->reset();
  auto committed = (*other)->commit({}, {});
  ASSERT_OK(committed);
  other->reset();
  EXPECT_TRUE(page_is(*h.store, committed->id, 0, page));
  EXPECT_EQ(h.store->list(kTenant, kA)->size(), 1u);
  // The other's pack, nodes, root and two heads of its session; nothing of the dropped one.
  EXPECT_EQ(h.files.files_for_test().size(), before + 5);
}

TEST(Store, AForkSharesEverythingAndMarksItsSource) {
  Harness h;
  auto source = take(*h.store, ingest_options(kA, {}), pages({{0, 1}}));
  ASSERT_OK(source);
  auto before = h.store->stat();
  ASSERT_OK(before);
  auto fork = h.store->fork(kTenant, source->id, kB, {});
  ASSERT_OK(fork);
  EXPECT_EQ(h.store->stat()->packs, before->packs);
  EXPECT_TRUE(page_is(*h.store, fork->id, 0, page_of(1)));
  EXPECT_TRUE(h.store->list(kTenant, kA)->front().fork_point);
  EXPECT_EQ(h.store->fork(kTenant, source->id, kB, {}).error().reason, "store.session_exists");
}

TEST(Store, ATenantBuildsOnABaseImageAndSharesItsPacks) {
  Harness h;
  IngestOptions publish = ingest_options(kA, {});
  publish.tenant = kBaseTenant;
  auto base = take(*h.store, publish, pages({{0, 1}, {1, 2}}));
  ASSERT_OK(base);
  auto fork = h.store->fork(kTenant, base->id, kB, {});
  ASSERT_OK(fork);
  EXPECT_TRUE(page_is(*h.store, fork->id, 1, page_of(2)));
  auto ingest = h.store->begin_ingest(ingest_options(kB, fork->id));
  ASSERT_OK(ingest);
  Bytes same = page_of(1);
  Bytes moved = page_of(2);
  Bytes fresh = page_of(3);
  std::vector<ChangedUnit> units{{0, same.data()}, {9, moved.data()}, {300, fresh.data()}};
  ASSERT_OK((*ingest)->add(MapKind::kMemory, units));
  EXPECT_EQ((*ingest)->stats().unchanged_units, 1u);
  EXPECT_EQ((*ingest)->stats().deduplicated_units, 1u);
  auto child = (*ingest)->commit({}, {});
  ASSERT_OK(child);
  EXPECT_TRUE(page_is(*h.store, child->id, 9, moved));
  EXPECT_TRUE(page_is(*h.store, child->id, 0, same));
  EXPECT_TRUE(page_is(*h.store, child->id, 300, fresh));
  auto report = h.store->check(CheckDepth::kEverything);
  ASSERT_OK(report);
  EXPECT_TRUE(report->damage.empty());
}

TEST(Store, NothingOfOneTenantIsFoundByAnother) {
  Harness h;
  auto mine = take(*h.store, ingest_options(kA, {}), pages({{0, 1}}));
  ASSERT_OK(mine);
  IngestOptions theirs = ingest_options(kA, {});
  theirs.tenant = kOther;
  auto ingest = h.store->begin_ingest(theirs);
  ASSERT_OK(ingest);
  Bytes same = page_of(1);
  std::vector<ChangedUnit> units{{0, same.data()}};
  ASSERT_OK((*ingest)->add(MapKind::kMemory, units));
  EXPECT_EQ((*ingest)->stats().deduplicated_units, 0u);
  EXPECT_EQ(h.store->open(kOther, mine->id).error().code, Code::kNotFound);
}

TEST(Store, MapsMayGrowAndShrink) {
  Harness h;
  IngestOptions options = ingest_options(kA, {});
  options.memory_bytes = 256 * kPageBytes;
  auto small = take(*h.store, options, pages({{0, 1}, {255, 2}}));
  ASSERT_OK(small);
  options.parent = small->id;
  options.memory_bytes = 70'000 * std::uint64_t{kPageBytes};
  auto large = take(*h.store, options, pages({{69'999, 3}}));
  ASSERT_OK(large);
  options.parent = large->id;
  options.memory_bytes = 255 * kPageBytes;
  auto shrunk = take(*h.store, options, {});
  ASSERT_OK(shrunk);
  options.parent = shrunk->id;
  options.memory_bytes = 70'000 * std::uint64_t{kPageBytes};
  auto again = take(*h.store, options, {});
  ASSERT_OK(again);
  EXPECT_TRUE(page_is(*h.store, large->id, 255, page_of(2)));
  EXPECT_TRUE(page_is(*h.store, large->id, 69'999, page_of(3)));
  EXPECT_TRUE(page_is(*h.store, again->id, 0, page_of(1)));
  EXPECT_TRUE(page_is(*h.store, again->id, 255, Bytes(kPageBytes)));
  EXPECT_TRUE(page_is(*h.store, again->id, 69'999, Bytes(kPageBytes)));
}

TEST(Store, AnOlderFencingTokenIsRefused) {
  Harness h;
  IngestOptions newer = ingest_options(kA, {});
  newer.writer.fencing_token = 7;
  auto started = h.store->begin_ingest(ingest_options(kA, {}));
  ASSERT_OK(started);
  ASSERT_OK(take(*h.store, newer, pages({{0, 1}})));
  EXPECT_EQ((*started)->commit({}, {}).error().reason, "store.fenced");
  EXPECT_EQ(h.store->begin_ingest(ingest_options(kA, {})).error().reason, "store.fenced");
}

TEST(Store, AUnitOfferedTwiceIsRefused) {
  Harness h;
  auto result = take(*h.store, ingest_options(kA, {}), pages({{3, 1}, {3, 2}}));
  EXPECT_EQ(result.error().reason, "store.duplicate_unit");
  EXPECT_TRUE(h.store->list(kTenant, kA)->empty());
}

TEST(Store, UnitsBeyondTheMapAreRefused) {
  Harness h;
  EXPECT_EQ(take(*h.store, ingest_options(kA, {}), pages({{1024, 1}})).error().reason, "store.out_of_range");
}

TEST(Store, ARevokedKeyClosesEverythingAtOnceAndItsReturnOpensItAgain) {
  Harness h;
  auto taken = take(*h.store, ingest_options(kA, {}), pages({{0, 1}}));
  ASSERT_OK(taken);
  auto opened = h.store->open(kTenant, taken->id);
  ASSERT_OK(opened);
  Bytes page(kPageBytes);
  ASSERT_OK((*opened)->map(MapKind::kMemory).read(0, page));
  h.keys.revoke(kTenant);
  h.store->drop_keys(kTenant);
  EXPECT_EQ((*opened)->map(MapKind::kMemory).read(0, page).error().reason, "store.key_unavailable");
  EXPECT_EQ(page, Bytes(kPageBytes));
  EXPECT_EQ(h.store->open(kTenant, taken->id).error().reason, "store.key_unavailable");
  EXPECT_EQ(h.store->begin_ingest(ingest_options(kA, {})).error().reason, "store.key_unavailable");
  EXPECT_EQ(h.store->fork(kTenant, taken->id, kB, {}).error().reason, "store.key_unavailable");
  EXPECT_EQ(h.store->stat()->cached_bytes, 0u);
  h.keys.restore(kTenant);
  EXPECT_TRUE(page_is(*h.store, taken->id, 0, page_of(1)));
}

TEST(Store, ACachedKeyIsForgottenAfterItsTime) {
  Harness h;
  auto taken = take(*h.store, ingest_options(kA, {}), pages({{0, 1}}));
  ASSERT_OK(taken);
  h.keys.revoke(kTenant);
  ASSERT_TRUE(page_is(*h.store, taken->id, 0, page_of(1)));
  h.advance(h.options.key_ttl);
  EXPECT_EQ(h.store->open(kTenant, taken->id).error().reason, "store.key_unavailable");
  EXPECT_EQ(h.store->stat()->cached_bytes, 0u);
}

TEST(Store, RewrappingAndANewDataKeyKeepOldSnapshotsReadable) {
  Harness h;
  auto before = take(*h.store, ingest_options(kA, {}), pages({{0, 1}}));
  ASSERT_OK(before);
  h.keys.rotate();
  ASSERT_OK(h.store->rewrap_keys(kTenant));
  ASSERT_OK(h.store->new_data_key(kTenant));
  auto after = take(*h.store, ingest_options(kA, before->id), pages({{1, 2}}));
  ASSERT_OK(after);
  h.reopen();
  EXPECT_TRUE(page_is(*h.store, before->id, 0, page_of(1)));
  EXPECT_TRUE(page_is(*h.store, after->id, 1, page_of(2)));
  EXPECT_NE(h.store->open(kTenant, before->id).value()->record().key_id,
            h.store->open(kTenant, after->id).value()->record().key_id);
}

TEST(Store, NamesAndPrefetchListsCanBeAddedLater) {
  Harness h;
  auto taken = take(*h.store, ingest_options(kA, {}), pages({{0, 1}}));
  ASSERT_OK(taken);
  ASSERT_OK(h.store->rename(kTenant, taken->id, "before the upgrade", {}));
  std::vector<std::uint64_t> list{5, 3, 0};
  ASSERT_OK(h.store->set_prefetch(kTenant, taken->id, list));
  h.reopen();
  auto record = h.store->find(kTenant, taken->id);
  ASSERT_OK(record);
  EXPECT_EQ(record->info.name, "before the upgrade");
  EXPECT_EQ(record->prefetch, list);
}

TEST(Store, DifferingUnitsAreFoundAgainstASnapshot) {
  Harness h;
  auto taken = take(*h.store, ingest_options(kA, {}), pages({{0, 1}, {1, 2}}));
  ASSERT_OK(taken);
  Bytes same = page_of(1);
  Bytes other = page_of(9);
  std::vector<ChangedUnit> units{{0, same.data()}, {1, other.data()}, {2, nullptr}, {3, other.data()}};
  auto opened = h.store->open(kTenant, taken->id);
  ASSERT_OK(opened);
  auto different = (*opened)->map(MapKind::kMemory).differing(units);
  ASSERT_OK(different);
  EXPECT_EQ(*different, (std::vector<std::uint64_t>{1, 3}));
}

TEST(Store, ManyReadersOfOneFrameCauseOneRead) {
  Harness h;
  auto taken = take(*h.store, ingest_options(kA, {}), pages({{0, 1}}));
  ASSERT_OK(taken);
  h.reopen();
  auto opened = h.store->open(kTenant, taken->id);
  ASSERT_OK(opened);
  std::vector<std::uint64_t> first{0};
  auto tree_first = (*opened)->map(MapKind::kMemory).stored_units(0, 1);  // the tree is loaded now
  ASSERT_OK(tree_first);
  auto reads = h.files.reads();
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      Bytes page(kPageBytes);
      if ((*opened)->map(MapKind::kMemory).read(0, page).ok() && page == page_of(1)) ++good;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 8);
  EXPECT_LE(h.files.reads() - reads, 2u);  // the pack's header and the frame
}

TEST(Store, WritersOfOneSessionAllCommitAndNoSnapshotLosesItsPacks) {
  Harness h;
  std::mutex mutex;
  std::map<SnapshotId, std::uint64_t> committed;
  std::vector<std::thread> writers;
  for (std::uint64_t writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&, writer] {
      for (std::uint64_t i = 0; i < 10; ++i) {
        std::uint64_t tag = writer * 100 + i + 1;
        for (;;) {
          auto taken = take(*h.store, ingest_options(kA, {}), {{MapKind::kMemory, writer, page_of(tag)}});
          if (!taken.ok() && taken.error().reason == "store.conflict") continue;
          std::lock_guard lock(mutex);
          ASSERT_TRUE(taken.ok() || taken.error().reason == "store.uncertain") << taken.error().describe();
          if (taken.ok()) committed[taken->id] = tag;
          break;
        }
      }
    });
  }
  for (auto& writer : writers) writer.join();
  auto listed = h.store->list(kTenant, kA);
  ASSERT_OK(listed);
  EXPECT_EQ(listed->size(), committed.size());
  for (auto [id, tag] : committed) EXPECT_TRUE(page_is(*h.store, id, tag / 100, page_of(tag))) << tag;
  EXPECT_TRUE(h.store->check(CheckDepth::kEverything)->damage.empty());
}

TEST(Store, ReservedSpaceIsNotGivenTwice) {
  Harness h;
  h.files.set_capacity(10u << 20);
  auto first = h.store->reserve(6u << 20);
  ASSERT_OK(first);
  EXPECT_EQ(h.store->reserve(6u << 20).error().reason, "store.no_space");
  first->reset();
  EXPECT_TRUE(h.store->reserve(6u << 20).ok());
}

TEST(Store, AnExportedSnapshotIsImportedElsewhere) {
  Harness h;
  auto changes = pages({{0, 1}, {700, 2}});
  changes.push_back({MapKind::kDisk, 2, page_of(3, kBlockBytes)});
  auto taken =
      take(*h.store, ingest_options(kA, {}), changes, meta_at(h.clock.wall(), "x"), random_page(4, 5000));
  ASSERT_OK(taken);
  auto key = crypto::SecretBytes::copy_of(random_page(1, 32));
  Bytes file;
  ASSERT_OK(h.store->export_snapshot(kTenant, taken->id, key, [&](ByteView part) -> Result<void> {
    file.insert(file.end(), part.begin(), part.end());
    return {};
  }));
  Harness other(99);
  auto source_of = [](ByteView bytes) {
    return [bytes](std::span<std::byte> out) mutable -> Result<std::size_t> {
      std::size_t take = std::min(out.size(), bytes.size());
      std::copy_n(bytes.begin(), take, out.begin());
      bytes = bytes.subspan(take);
      return take;
    };
  };
  auto imported = other.store->import_snapshot(kTenant, kB, key, source_of(file), {});
  ASSERT_OK(imported);
  for (MapKind map : {MapKind::kMemory, MapKind::kDisk}) {
    EXPECT_EQ(*read_map(*other.store, kTenant, imported->id, map),
              *read_map(*h.store, kTenant, taken->id, map));
  }
  EXPECT_EQ(*other.store->open(kTenant, imported->id).value()->device_state(), random_page(4, 5000));
  // Whatever is wrong with the file: nothing becomes visible.
  auto wrong_key = crypto::SecretBytes::copy_of(random_page(2, 32));
  EXPECT_EQ(other.store->import_snapshot(kTenant, kA, wrong_key, source_of(file), {}).error().reason,
            "store.import_invalid");
  for (std::size_t at = 0; at < file.size(); at += 97) {
    Bytes flipped = file;
    flipped[at] ^= std::byte{4};
    EXPECT_EQ(other.store->import_snapshot(kTenant, kA, key, source_of(flipped), {}).error().reason,
              "store.import_invalid")
        << at;
    ByteView cut = ByteView(file).first(at);
    EXPECT_EQ(other.store->import_snapshot(kTenant, kA, key, source_of(cut), {}).error().reason,
              "store.import_invalid")
        << at;
  }
  auto listed = other.store->list(kTenant, kA);
  EXPECT_TRUE(!listed.ok() || listed->empty());
}

TEST(Store, EveryCompressionReadsBack) {
  for (Compression compression : {Compression::kNone, Compression::kZstd1, Compression::kLz4}) {
    StoreOptions options = small_options();
    options.compression = compression;
    Harness h(5, options);
    auto changes = pages({{0, 1}});
    changes.push_back({MapKind::kMemory, 1, random_page(3)});
    auto taken = take(*h.store, ingest_options(kA, {}), changes);
    ASSERT_OK(taken);
    h.reopen();
    EXPECT_TRUE(page_is(*h.store, taken->id, 0, page_of(1)));
    EXPECT_TRUE(page_is(*h.store, taken->id, 1, random_page(3)));
  }
}

}  // namespace
}  // namespace space::imager::store
