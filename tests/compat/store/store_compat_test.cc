// SPDX-License-Identifier: Apache-2.0
// Stores and exports written by every version of the format so far are read by this one.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "lib/os/file.h"
#include "tests/compat/store/contents.h"

namespace space::compat {
namespace {

using namespace imager::store;
using namespace imager::store::testing;

#define ASSERT_OK(result) ASSERT_TRUE((result).ok()) << (result).error().describe()

// A fixture copied to a place where the store may write.
class StoreFormat : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    fixture = std::string(SPACE_FIXTURES) + "/" + GetParam();
    char name[] = "/tmp/space-compat-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder = name;
    std::filesystem::copy(fixture + "/store", folder, std::filesystem::copy_options::recursive);
    files = blob::open_real_file_system(folder);
    auto opened = blob::open_dir_store(*files, random);
    ASSERT_OK(opened);
    objects = std::move(opened).value();
    store = open_store(*objects, keys, random, clock, small_options());
  }
  void TearDown() override {
    store.reset();
    ASSERT_OK(os::remove_tree(folder));
  }
  std::string fixture;
  std::string folder;
  SimulatedClock clock;
  os::SystemRandom random;
  MemoryKeys keys{3};
  std::unique_ptr<blob::FileSystem> files;
  std::unique_ptr<blob::ObjectStore> objects;
  std::unique_ptr<Store> store;
};
INSTANTIATE_TEST_SUITE_P(Versions, StoreFormat, ::testing::Values("v1"));

TEST_P(StoreFormat, EverySnapshotReadsAsItWasWritten) {
  auto listed = store->list(kTenant, kSession);
  ASSERT_OK(listed);
  ASSERT_EQ(listed->size(), kSnapshots);
  for (std::size_t i = 0; i < kSnapshots; ++i) EXPECT_EQ(compare(*store, (*listed)[i].id, i), "") << i;
  EXPECT_EQ((*listed)[5].name, "five");
  EXPECT_TRUE((*listed)[40].fork_point);
  auto fork = store->list(kTenant, kFork);
  ASSERT_OK(fork);
  EXPECT_EQ(compare(*store, fork->front().id, 40), "");
  auto record = store->find(kTenant, (*listed)[30].id);
  ASSERT_OK(record);
  EXPECT_EQ(record->prefetch, (std::vector<std::uint64_t>{0, 256}));
}

TEST_P(StoreFormat, TheWholeStoreChecksClean) {
  auto report = store->check(CheckDepth::kEverything);
  ASSERT_OK(report);
  EXPECT_TRUE(report->damage.empty());
  EXPECT_EQ(report->snapshots, kSnapshots + 2);
}

TEST_P(StoreFormat, ItIsContinuedAndCollected) {
  auto listed = store->list(kTenant, kSession);
  ASSERT_OK(listed);
  IngestOptions options = ingest_options(kSession, listed->back().id);
  options.memory_bytes = kMemoryBytes;
  options.disk_bytes = kDiskBytes;
  ASSERT_OK(take(*store, options, {{MapKind::kMemory, 77, page_of(5)}}));
  ASSERT_OK(store->remove(kTenant, kSession, std::vector{(*listed)[1].id}, {}));
  clock.advance(std::chrono::hours(24 * 365 * 10));  // beyond the age of the copied files
  for (int i = 0; i < 2; ++i) ASSERT_OK(store->collect(kTenant));
  EXPECT_EQ(compare(*store, listed->back().id, kSnapshots - 1), "");
  EXPECT_TRUE(store->check(CheckDepth::kEverything)->damage.empty());
}

TEST_P(StoreFormat, TheExportedFileIsImported) {
  auto file = os::read_file(fixture + "/snapshot.export");
  ASSERT_OK(file);
  ByteView left = as_bytes(*file);
  auto imported = store->import_snapshot(kTenant, session_named('i'), export_key(),
                                         [&](std::span<std::byte> out) -> Result<std::size_t> {
                                           std::size_t take = std::min(out.size(), left.size());
                                           std::copy_n(left.begin(), take, out.begin());
                                           left = left.subspan(take);
                                           return take;
                                         },
                                         {});
  ASSERT_OK(imported);
  EXPECT_EQ(compare(*store, imported->id, kSnapshots - 1), "");
}

}  // namespace
}  // namespace space::compat
