// SPDX-License-Identifier: Apache-2.0
#include "cli/copy/local_tree.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "lib/os/file.h"

namespace space::cli::copy {
namespace {

struct LocalTree : ::testing::Test {
  std::string dir;
  std::string root;
  os::SystemRandom random;
  void SetUp() override {
    char pattern[] = "/tmp/space-tree-XXXXXX";
    dir = ::mkdtemp(pattern);
    root = dir + "/root";
    os::make_directory(root).value();
  }
  void TearDown() override { os::remove_tree(dir).ignore("test clean-up"); }
  LocalDirectory open() const { return std::move(*LocalDirectory::open(root)); }
  Result<void> put(const LocalDirectory& directory, const std::string& name, const std::string& text,
                   mode_t mode = 0644) {
    SPACE_TRY(auto file, directory.create(name, random));
    SPACE_CHECK_OK(file.write(as_bytes(text)));
    return file.commit(mode);
  }
};

TEST_F(LocalTree, AFileAppearsOnlyWhenItIsComplete) {
  auto directory = open();
  os::write_file_atomic(root + "/f", "old", os::Durability::kBuffered).value();
  {
    auto file = directory.create("f", random);
    ASSERT_TRUE(file.ok());
    file->write(as_bytes("half")).value();
    EXPECT_EQ(*os::read_file(root + "/f"), "old");
  }
  EXPECT_EQ(*os::list_directory(root), std::vector<std::string>{"f"});
  ASSERT_TRUE(put(directory, "f", "new", 06755).ok());
  EXPECT_EQ(*os::read_file(root + "/f"), "new");
  EXPECT_EQ(*os::list_directory(root), std::vector<std::string>{"f"});
  struct stat info{};
  ASSERT_EQ(::stat((root + "/f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0755U);  // no set-id bits from a guest
}

TEST_F(LocalTree, HostileNamesAreRefusedForFilesAndDirectories) {
  auto directory = open();
  for (const char* bad : {"", ".", "..", "../x", "/etc/x", "a/b"}) {
    EXPECT_EQ(put(directory, bad, "x").error().reason, "cli.hostile_name") << bad;
    EXPECT_EQ(directory.enter(bad).error().reason, "cli.hostile_name") << bad;
  }
  EXPECT_EQ(os::list_directory(dir)->size(), 1U);
}

TEST_F(LocalTree, LinksAreReplacedAndNeverFollowed) {
  os::make_directory(dir + "/outside").value();
  os::write_file_atomic(dir + "/outside/file", "safe", os::Durability::kBuffered).value();
  ASSERT_EQ(::symlink("../outside", (root + "/link").c_str()), 0);
  ASSERT_EQ(::symlink("../outside/file", (root + "/f").c_str()), 0);
  auto directory = open();
  EXPECT_FALSE(directory.enter("link").ok());
  EXPECT_TRUE(put(directory, "f", "new").ok());
  EXPECT_EQ(*os::read_file(dir + "/outside/file"), "safe");
  struct stat info{};
  ASSERT_EQ(::lstat((root + "/f").c_str(), &info), 0);
  EXPECT_TRUE(S_ISREG(info.st_mode));
}

TEST_F(LocalTree, ADirectoryInTheWayIsAnError) {
  auto directory = open();
  ASSERT_TRUE(directory.enter("d").ok());
  EXPECT_EQ(put(directory, "d", "x").error().reason, "os.file");
}

}  // namespace
}  // namespace space::cli::copy
