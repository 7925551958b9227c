// SPDX-License-Identifier: Apache-2.0
// Rot and theft: every kind of object, damaged in every way, is detected, named and never served; and depth.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "imager/store/testing/harness.h"

namespace space::imager::store {
namespace {

using namespace testing;

const SessionId kA = session_named('a');

#define ASSERT_OK(result) ASSERT_TRUE((result).ok()) << (result).error().describe()

// A store with every kind of object: a base image, packs of units and nodes, roots, heads, a checkpointed
// history, a prefetch list, a collector's record, two generations of the key ring.
class Damaged : public ::testing::Test {
 protected:
  void SetUp() override {
    IngestOptions publish = ingest_options(session_named('z'), {});
    publish.tenant = kBaseTenant;
    auto base = take(*h.store, publish, {{MapKind::kMemory, 1000, page_of(500)}}, meta_at(h.clock.wall()),
                     page_of(1, 3000));
    ASSERT_OK(base);
    auto last = h.store->fork(kTenant, base->id, kA, {});
    ASSERT_OK(last);
    known[last->id] = {{1000, page_of(500)}};
    for (std::uint64_t i = 0; i < 70; ++i) {
      h.advance(std::chrono::seconds(1));
      Model model = known[last->id];
      model[i % 7 * 150] = page_of(i);
      auto next = take(*h.store, ingest_options(kA, last->id), {{MapKind::kMemory, i % 7 * 150, page_of(i)}},
                       meta_at(h.clock.wall()), page_of(i, 2000));
      ASSERT_OK(next);
      known[next->id] = model;
      last = next;
      if (i == 10) ASSERT_OK(h.store->new_data_key(kTenant));
    }
    newest = last->id;
    ASSERT_OK(h.store->set_prefetch(kTenant, newest, std::vector<std::uint64_t>{0, 150}));
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK(h.store->collect(kTenant));
      ASSERT_OK(h.store->collect(kBaseTenant));
    }
    auto clean = h.store->check(CheckDepth::kEverything);
    ASSERT_OK(clean);
    ASSERT_TRUE(clean->damage.empty())
        << clean->damage.front().object << ": " << clean->damage.front().detail;
    ASSERT_TRUE(clean->unreferenced.empty()) << clean->unreferenced.front();
    image = h.files.image_for_test();
  }

  // Damages one file, opens the store anew, and looks at everything.
  void expect_detected(const std::string& path, const std::string& how,
                       const std::function<void(blob::FaultFileSystem&)>& damage) {
    SCOPED_TRACE(path + ": " + how);
    h.store.reset();
    h.files.restore_for_test(*image);
    damage(h.files);
    h.reopen();
    auto report = h.store->check(CheckDepth::kEverything);
    ASSERT_OK(report);
    // Heads are named with or without their version, packs with or without a place in them.
    std::string folder = path.substr(0, path.rfind('/'));
    bool version = path.find("/heads/") != std::string::npos || path.find("/gc/") != std::string::npos ||
                   path.find("/ring/") != std::string::npos;
    bool named = std::ranges::any_of(report->damage, [&](const Damage& found) {
      return found.object.starts_with(version ? folder : path);
    });
    EXPECT_TRUE(named) << report->damage.size() << " other damage "
                       << (report->damage.empty() ? "" : report->damage.front().object);
    // The newest intact one is offered, and is intact.
    auto intact = h.store->newest_intact(kTenant, kA, CheckDepth::kEverything);
    if (intact.ok()) {
      auto content = read_map(*h.store, kTenant, intact->snapshot.id, MapKind::kMemory);
      if (content.ok()) {
        EXPECT_EQ(*content, expected_map(known[intact->snapshot.id], MapKind::kMemory, kMemoryBytes));
      }
      EXPECT_TRUE(intact->snapshot.id == newest || !intact->passed_over.empty());
    }
    // Whatever is served is right.
    for (const SnapshotId& id : {newest, known.begin()->first, known.rbegin()->first}) {
      auto content = read_map(*h.store, kTenant, id, MapKind::kMemory);
      if (content.ok()) {
        EXPECT_EQ(*content, expected_map(known[id], MapKind::kMemory, kMemoryBytes));
      }
    }
  }

  Harness h;
  std::map<SnapshotId, Model> known;
  SnapshotId newest;
  std::shared_ptr<const blob::FaultFileSystem::Image> image;
};

// Some files of each folder: all kinds, not all 140 packs.
std::vector<std::string> sample(const std::vector<std::string>& files, std::size_t per_folder) {
  std::map<std::string, std::vector<std::string>> folders;
  for (const std::string& path : files) {
    if (path.starts_with("t/")) folders[path.substr(0, path.rfind('/'))].push_back(path);
  }
  std::vector<std::string> chosen;
  for (auto& [folder, paths] : folders) {
    std::size_t stride = std::max<std::size_t>(1, paths.size() / per_folder);
    for (std::size_t i = 0; i < paths.size(); i += stride) chosen.push_back(paths[i]);
  }
  return chosen;
}

TEST_F(Damaged, ABitFlippedAnywhereIsDetectedAndNamed) {
  for (const std::string& path : sample(h.files.files_for_test(), 3)) {
    std::size_t size = 0;
    h.files.corrupt_for_test(path, [&](Bytes& bytes) { size = bytes.size(); });
    for (std::size_t at : {std::size_t{0}, std::size_t{9}, std::size_t{13}, std::size_t{20}, std::size_t{60},
                           size / 3, size / 2, size * 2 / 3, size - 20, size - 9, size - 1}) {
      if (at >= size) continue;
      expect_detected(path, "bit at byte " + std::to_string(at) + " of " + std::to_string(size),
                      [&](blob::FaultFileSystem& files) {
                        files.corrupt_for_test(path, [&](Bytes& bytes) { bytes[at] ^= std::byte{0x10}; });
                      });
      if (HasFailure()) return;
    }
  }
}

TEST_F(Damaged, ATruncatedObjectIsDetectedAndNamed) {
  for (const std::string& path : sample(h.files.files_for_test(), 3)) {
    for (unsigned part : {0u, 1u, 50u, 99u}) {
      expect_detected(path, "cut to " + std::to_string(part) + " %", [&](blob::FaultFileSystem& files) {
        files.corrupt_for_test(path, [&](Bytes& bytes) { bytes.resize(bytes.size() * part / 100); });
      });
      if (HasFailure()) return;
    }
  }
}

TEST_F(Damaged, ARemovedObjectIsDetectedAndNamed) {
  for (const std::string& path : sample(h.files.files_for_test(), 6)) {
    if (path.find("/prefetch/") != std::string::npos) continue;  // may be absent
    expect_detected(path, "removed", [&](blob::FaultFileSystem& files) { files.remove_for_test(path); });
    if (HasFailure()) return;
  }
}

TEST_F(Damaged, ObjectsExchangedForOthersOfTheirKindAreDetected) {
  auto files = h.files.files_for_test();
  for (const std::string& folder : {std::string("/packs/"), std::string("/roots/")}) {
    std::vector<std::string> same;
    std::ranges::copy_if(files, std::back_inserter(same), [&](const std::string& path) {
      return path.find(kTenant.str() + folder) != std::string::npos;
    });
    ASSERT_GE(same.size(), 2u);
    Bytes other;
    h.files.corrupt_for_test(same[1], [&](Bytes& bytes) { other = bytes; });
    expect_detected(same[0], "exchanged", [&](blob::FaultFileSystem& disk) {
      disk.corrupt_for_test(same[0], [&](Bytes& bytes) { bytes = other; });
    });
  }
}

TEST_F(Damaged, TheReportSaysWhichSnapshotsADamagedPackCosts) {
  auto newest_root = h.store->find(kTenant, newest);
  ASSERT_OK(newest_root);
  // The only pack of units that was written last belongs to the newest snapshot alone or to its parent.
  for (const std::string& path : h.files.files_for_test()) {
    if (path.find(kTenant.str() + "/packs/") == std::string::npos) continue;
    h.files.restore_for_test(*image);
    h.files.remove_for_test(path);
    auto report = h.store->check(CheckDepth::kTrees);
    ASSERT_OK(report);
    ASSERT_FALSE(report->damage.empty());
    ASSERT_FALSE(report->damage.front().snapshots.empty()) << path;
    auto broken = report->damage.front().snapshots.front();
    h.reopen();
    EXPECT_FALSE(h.store->verify(kTenant, broken)->damage.empty());
    return;
  }
}

TEST_F(Damaged, EverythingIsFoundAgainFromTheStoreAlone) {
  h.reopen();
  auto recovered = h.store->recover();
  ASSERT_OK(recovered);
  auto mine = std::ranges::find(*recovered, kA, &RecoveredSession::session);
  ASSERT_NE(mine, recovered->end());
  EXPECT_EQ(mine->snapshots.size(), known.size());
  EXPECT_FALSE(mine->from_roots_alone);
  for (const std::string& path : h.files.files_for_test()) {
    if (path.find("/heads/" + kA.str()) != std::string::npos) h.files.remove_for_test(path);
  }
  h.reopen();
  recovered = h.store->recover();
  ASSERT_OK(recovered);
  mine = std::ranges::find(*recovered, kA, &RecoveredSession::session);
  ASSERT_NE(mine, recovered->end());
  EXPECT_EQ(mine->snapshots.size(), known.size());
  EXPECT_TRUE(mine->from_roots_alone);
  EXPECT_EQ(mine->snapshots.back().id, newest);
}

TEST_F(Damaged, ADamagedCollectorRecordIsReplacedAndWritersGoOn) {
  for (const std::string& path : h.files.files_for_test()) {
    if (path.find(kTenant.str() + "/gc/") != std::string::npos) {
      h.files.corrupt_for_test(path, [](Bytes& bytes) { bytes[80] ^= std::byte{1}; });
    }
  }
  h.reopen();
  EXPECT_EQ(h.store->begin_ingest(ingest_options(kA, newest)).error().code, Code::kDataLoss);
  ASSERT_OK(h.store->collect(kTenant));
  ASSERT_OK(take(*h.store, ingest_options(kA, newest), {{MapKind::kMemory, 3, page_of(9)}}));
}

TEST(StoreDepth, AThousandSnapshotsCostALookupNoMoreThanOne) {
  Harness h;
  const SessionId session = session_named('d');
  std::vector<SnapshotId> ids;
  std::vector<Model> models;
  Model model;
  std::optional<SnapshotId> parent;
  std::uint64_t depth1_reads = 0;
  auto reads_of_all = [&](const SnapshotId& id) {
    h.reopen();
    auto before = h.files.reads();
    EXPECT_TRUE(read_map(*h.store, kTenant, id, MapKind::kMemory).ok());
    return h.files.reads() - before;
  };
  constexpr std::uint64_t kUnits = kMemoryBytes / kPageBytes;
  std::vector<Change> all;
  for (std::uint64_t unit = 0; unit < kUnits; ++unit) {
    all.push_back({MapKind::kMemory, unit, page_of(unit)});
    model[unit] = *all.back().content;
  }
  auto first = take(*h.store, ingest_options(session, {}), all);
  ASSERT_OK(first);
  ids.push_back(first->id);
  models.push_back(model);
  parent = first->id;
  depth1_reads = reads_of_all(first->id);
  std::mt19937_64 random(3);
  for (int i = 1; i < 1000; ++i) {
    std::vector<Change> changes;
    for (std::uint64_t part = 0; part < 4;
         ++part) {  // each leaf changes each time: the worst for fragmentation
      std::uint64_t unit = part * 256 + random() % 256;
      changes.push_back({MapKind::kMemory, unit, page_of(10'000 + static_cast<std::uint64_t>(i) * 4 + part)});
      model[unit] = *changes.back().content;
    }
    auto next = take(*h.store, ingest_options(session, parent), changes);
    ASSERT_OK(next);
    parent = next->id;
    ids.push_back(next->id);
    models.push_back(model);
  }
  for (std::size_t i : {std::size_t{0}, std::size_t{499}, std::size_t{999}}) {
    auto content = read_map(*h.store, kTenant, ids[i], MapKind::kMemory);
    ASSERT_OK(content);
    EXPECT_EQ(*content, expected_map(models[i], MapKind::kMemory, kMemoryBytes));
  }
  std::uint64_t depth1000_reads = reads_of_all(ids.back());
  // Four leaves of at most eight packs: a header and a few stretches of frames from each.
  EXPECT_LE(depth1000_reads, depth1_reads + 4 * 8 * 4) << depth1_reads;
  EXPECT_EQ(h.store->list(kTenant, session)->size(), 1000u);
}

}  // namespace
}  // namespace space::imager::store
