// SPDX-License-Identifier: Apache-2.0
#include "lib/blob/dir_store.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <thread>

#include "lib/blob/fault/fault_file_system.h"
#include "lib/os/file.h"

namespace space::blob {
namespace {

#define ASSERT_OK(result) ASSERT_TRUE((result).ok()) << (result).error().describe()

Result<void> put(ObjectStore& store, const std::string& name, std::string_view text,
                 Durability durability = Durability::kSynced) {
  ByteView part = as_bytes(text);
  return store.put(name, std::span(&part, 1), durability);
}
std::string get(ObjectStore& store, const std::string& name) {
  auto bytes = store.get(name, 1000);
  return bytes.ok() ? to_text(*bytes) : bytes.error().reason;
}

// The same behaviour on a real directory and on the simulated disk.
enum class Disk { kReal, kSimulated };
class DirStore : public ::testing::TestWithParam<Disk> {
 protected:
  void SetUp() override {
    if (GetParam() == Disk::kReal) {
      char name[] = "/tmp/space-blob-XXXXXX";
      ASSERT_NE(mkdtemp(name), nullptr);
      root = name;
      files = open_real_file_system(root);
    } else {
      files = std::make_unique<FaultFileSystem>(1);
    }
    auto opened = open_dir_store(*files, random);
    ASSERT_OK(opened);
    store = std::move(opened).value();
  }
  void TearDown() override {
    if (!root.empty()) ASSERT_OK(os::remove_tree(root));
  }
  os::SeededRandom random{1};
  std::string root;
  std::unique_ptr<FileSystem> files;
  std::unique_ptr<ObjectStore> store;
};
INSTANTIATE_TEST_SUITE_P(Disks, DirStore, ::testing::Values(Disk::kReal, Disk::kSimulated),
                         [](const auto& info) { return info.param == Disk::kReal ? "Real" : "Simulated"; });

TEST_P(DirStore, AnObjectIsWrittenOnceAndReadInParts) {
  ASSERT_OK(put(*store, "a/b/c", "hello world"));
  EXPECT_EQ(put(*store, "a/b/c", "other").error().reason, "blob.exists");
  EXPECT_EQ(get(*store, "a/b/c"), "hello world");
  Bytes part(5);
  ASSERT_OK(store->get_range("a/b/c", 6, part));
  EXPECT_EQ(as_text(part), "world");
  EXPECT_EQ(store->get_range("a/b/c", 7, part).error().reason, "blob.short");
  EXPECT_EQ(*store->size("a/b/c"), 11u);
  EXPECT_EQ(store->get("a/b/c", 10).error().reason, "blob.too_large");
}

TEST_P(DirStore, ListsAFolderInOrderAndRemoves) {
  for (const char* name : {"f/2", "f/1", "f/sub/3"}) ASSERT_OK(put(*store, name, name));
  auto listed = store->list("f");
  ASSERT_OK(listed);
  ASSERT_EQ(listed->size(), 2u);
  EXPECT_EQ((*listed)[0].name, "f/1");
  EXPECT_EQ((*listed)[1].bytes, 3u);
  EXPECT_EQ(*store->list_folders("f"), std::vector<std::string>{"sub"});
  ASSERT_OK(store->remove("f/1"));
  ASSERT_OK(store->remove("f/1"));
  EXPECT_EQ(get(*store, "f/1"), "blob.not_found");
  EXPECT_TRUE(store->list("absent")->empty());
}

TEST_P(DirStore, AHeadMovesOnlyFromWhatTheWriterSaw) {
  EXPECT_FALSE(store->read_head("h")->has_value());
  EXPECT_EQ(*store->swap_head("h", 0, as_bytes("one")), 1u);
  EXPECT_EQ(store->swap_head("h", 0, as_bytes("late")).error().reason, "blob.conflict");
  EXPECT_EQ(*store->swap_head("h", 1, as_bytes("two")), 2u);
  EXPECT_EQ(store->swap_head("h", 1, as_bytes("late")).error().reason, "blob.conflict");
  EXPECT_EQ(*store->swap_head("h", 2, as_bytes("three")), 3u);
  EXPECT_EQ(to_text((**store->read_head("h")).bytes), "three");
  EXPECT_EQ(*store->head_versions("h"), (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(to_text(store->read_head_version("h", 2)->bytes), "two");
}

// Appends `token` to the head as often as it takes. After blob.overtaken the head itself tells.
void append(ObjectStore& store, const std::string& token) {
  for (;;) {
    auto head = store.read_head("h");
    if (!head.ok()) continue;
    std::string text = *head ? to_text((**head).bytes) : "";
    if (text.find(token) != std::string::npos) return;
    auto swapped = store.swap_head("h", *head ? (**head).version : 0, as_bytes(text + token));
    if (swapped.ok()) return;
    ASSERT_TRUE(swapped.error().reason == "blob.conflict" || swapped.error().reason == "blob.overtaken")
        << swapped.error().describe();
  }
}

TEST_P(DirStore, OfManyWritersNoneIsLostAndNoneCountsTwice) {
  constexpr int kWriters = 4;
  constexpr int kEach = 50;
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.emplace_back([&, i] {
      os::SeededRandom own(static_cast<std::uint64_t>(i) + 50);
      auto opened = open_dir_store(*files, own);
      for (int n = 0; n < kEach; ++n)
        append(**opened, "<" + std::to_string(i) + "." + std::to_string(n) + ">");
    });
  }
  for (auto& writer : writers) writer.join();
  auto head = store->read_head("h");
  ASSERT_OK(head);
  std::string text = to_text((**head).bytes);
  for (int i = 0; i < kWriters; ++i) {
    for (int n = 0; n < kEach; ++n) {
      std::string token = "<" + std::to_string(i) + "." + std::to_string(n) + ">";
      auto first = text.find(token);
      EXPECT_NE(first, std::string::npos) << token;
      EXPECT_EQ(text.find(token, first + 1), std::string::npos) << token;
    }
  }
  // A version for each token: nothing was undone that others had built on.
  EXPECT_EQ((**head).version, std::uint64_t{kWriters * kEach});
}

TEST_P(DirStore, ARemovedHeadIsGone) {
  ASSERT_OK(store->swap_head("f/h", 0, as_bytes("one")));
  ASSERT_OK(store->remove_head("f/h"));
  EXPECT_FALSE(store->read_head("f/h")->has_value());
  EXPECT_TRUE(store->list_folders("f")->empty());
  EXPECT_EQ(*store->swap_head("f/h", 0, as_bytes("again")), 1u);
}

TEST_P(DirStore, RefusesNamesThatAreNotItsOwn) {
  for (const char* name : {"", "/a", "a//b", "a/../b", ".", "a/", "a b", "a\n"}) {
    EXPECT_FALSE(is_valid_name(name)) << name;
    EXPECT_EQ(put(*store, name, "x").error().reason, "blob.bad_name") << name;
  }
}

TEST_P(DirStore, LeavesNoTemporaryFilesAndSweepsThoseOfTheDead) {
  ASSERT_OK(put(*store, "a", "x"));
  EXPECT_TRUE(files->list("tmp")->empty());
  ASSERT_OK(files->create("tmp/left"));
  ASSERT_OK(sweep_temporary(*files, WallTime::min()));
  EXPECT_EQ(files->list("tmp")->size(), 1u);
  ASSERT_OK(sweep_temporary(*files, WallTime::max()));
  EXPECT_TRUE(files->list("tmp")->empty());
}

class OnFaultyDisk : public ::testing::Test {
 protected:
  OnFaultyDisk() { reopen(); }
  void reopen() {
    auto opened = open_dir_store(files, random);
    store = std::move(opened).value();
  }
  os::SeededRandom random{1};
  FaultFileSystem files{1};
  std::unique_ptr<ObjectStore> store;
};

TEST_F(OnFaultyDisk, ASyncedObjectSurvivesEveryPowerFailureAfterIt) {
  ASSERT_OK(put(*store, "f/a", "durable"));
  for (int i = 0; i < 20; ++i) {
    files.crash_and_reboot();
    reopen();
    ASSERT_EQ(get(*store, "f/a"), "durable");
  }
}

TEST_F(OnFaultyDisk, ABufferedObjectMayBeLost) {
  bool lost = false;
  for (int i = 0; i < 64 && !lost; ++i) {
    ASSERT_OK(put(*store, "f/" + std::to_string(i), "buffered", Durability::kBuffered));
    files.crash_and_reboot();
    reopen();
    lost = get(*store, "f/" + std::to_string(i)) != "buffered";
  }
  EXPECT_TRUE(lost);  // else the disk remembers too much for any other test to mean something
}

TEST_F(OnFaultyDisk, PowerFailureAtEachStepOfASwapLeavesTheOldOrTheNewVersion) {
  ASSERT_OK(store->swap_head("h", 0, as_bytes("one")));
  ASSERT_OK(store->swap_head("h", 1, as_bytes("two")));
  auto image = files.image_for_test();
  for (std::uint64_t step = 1; step < 12; ++step) {
    files.restore_for_test(*image);
    reopen();
    files.inject({FaultKind::kCrash, step});
    bool done = store->swap_head("h", 2, as_bytes("three")).ok();
    files.crash_and_reboot();
    reopen();
    std::string now = to_text((**store->read_head("h")).bytes);
    EXPECT_TRUE(now == "three" || (now == "two" && !done)) << step << now;
    EXPECT_GE(store->head_versions("h")->size(), 2u);
  }
}

// A writer whose look before the link is out of date, or that is held after it.
TEST_F(OnFaultyDisk, AWriterThatSleptWhileItsNumberWasClearedAwayChangesNothing) {
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_OK(store->swap_head("h", i, as_bytes("x")));
  // As if it had looked before version 3 was made: its link succeeds, since 3 is gone again.
  ASSERT_EQ(*store->head_versions("h"), (std::vector<std::uint64_t>{4, 5}));
  class Sleeper final : public FileSystem {
   public:
    explicit Sleeper(FileSystem& below) : below_(below) {}
    bool asleep = true;
    Result<std::vector<DirectoryEntry>> list(const std::string& path) override {
      if (path == "h" && std::exchange(asleep, false)) {
        std::vector<DirectoryEntry> old;
        for (const char* name : {"00000000000000000001", "00000000000000000002"})
          old.push_back({name, false, 1, {}});
        return old;
      }
      return below_.list(path);
    }
    Result<std::unique_ptr<OutputFile>> create(const std::string& path) override {
      return below_.create(path);
    }
    Result<std::unique_ptr<InputFile>> open(const std::string& path) override { return below_.open(path); }
    Result<void> link(const std::string& from, const std::string& to) override {
      return below_.link(from, to);
    }
    Result<void> unlink(const std::string& path) override { return below_.unlink(path); }
    Result<void> make_directory(const std::string& path) override { return below_.make_directory(path); }
    Result<void> remove_directory(const std::string& path) override { return below_.remove_directory(path); }
    Result<void> sync_directory(const std::string& path) override { return below_.sync_directory(path); }
    Result<std::uint64_t> free_bytes() override { return below_.free_bytes(); }

   private:
    FileSystem& below_;
  };
  Sleeper sleeper(files);
  auto late = open_dir_store(sleeper, random);
  EXPECT_EQ((*late)->swap_head("h", 2, as_bytes("late")).error().reason, "blob.overtaken");
  EXPECT_EQ(to_text((**store->read_head("h")).bytes), "x");
  ASSERT_OK(store->swap_head("h", 5, as_bytes("y")));
  EXPECT_EQ(*store->head_versions("h"), (std::vector<std::uint64_t>{5, 6}));
}

TEST_F(OnFaultyDisk, AFullDiskIsNamedAndLeavesNothing) {
  files.inject({FaultKind::kNoSpace, 2, true});
  EXPECT_EQ(put(*store, "a", "x").error().reason, "blob.no_space");
  files.clear_faults();
  EXPECT_EQ(get(*store, "a"), "blob.not_found");
  ASSERT_OK(put(*store, "a", "x"));
}

TEST_F(OnFaultyDisk, ShortWritesAreContinued) {
  for (std::uint64_t step = 1; step < 6; ++step) {
    files.inject({FaultKind::kShortWrite, step});
    std::string name = "s" + std::to_string(step);
    ASSERT_OK(put(*store, name, "a longer text"));
    EXPECT_EQ(get(*store, name), "a longer text");
  }
}

}  // namespace
}  // namespace space::blob
