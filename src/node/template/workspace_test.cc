// SPDX-License-Identifier: Apache-2.0
#include "node/template/workspace.h"

#include <sys/file.h>

#include <future>

#include <gtest/gtest.h>

#include "node/template/test_dir.h"

namespace space::node::tmpl {
namespace {

TEST(Publish, NewDirectoryAppears) {
  const TestDir dir;
  dir.write("new/file", "1");
  ASSERT_TRUE(publish_directory(dir / "new", dir / "out").ok());
  EXPECT_EQ(os::read_file(dir / "out/file").value(), "1");
  EXPECT_FALSE(os::exists(dir / "new"));
}

TEST(Publish, OldDirectoryIsReplacedAndOpenFilesStayReadable) {
  const TestDir dir;
  dir.write("out/file", "old");
  dir.write("out/only-old", "x");
  const os::Fd open = os::open_file(dir / "out/file", 0).value();
  dir.write("new/file", "new");
  ASSERT_TRUE(publish_directory(dir / "new", dir / "out").ok());
  EXPECT_EQ(os::read_file(dir / "out/file").value(), "new");
  EXPECT_FALSE(os::exists(dir / "out/only-old"));
  char buffer[8];
  ASSERT_EQ(::pread(open.get(), buffer, sizeof buffer, 0), 3);
  EXPECT_EQ(std::string(buffer, 3), "old");
  EXPECT_EQ(os::list_directory(dir.path()).value(), std::vector<std::string>{"out"});
}

TEST(BuildDirectory, GoesAwayWithItsOwner) {
  const TestDir dir;
  std::string path;
  {
    const auto work = BuildDirectory::make(dir / "base").value();
    path = work.path();
    EXPECT_TRUE(os::exists(path));
  }
  EXPECT_FALSE(os::exists(path));
}

TEST(BuildDirectory, WhatAKilledBuildLeftIsRemovedAndNothingElse) {
  const TestDir dir;
  dir.write(".building-base-a1B2c3/root/etc/passwd", "x");
  dir.write(".building-base-two-a1B2c3/x", "another template's");
  const auto work = BuildDirectory::make(dir / "base").value();
  EXPECT_FALSE(os::exists(dir / ".building-base-a1B2c3"));
  EXPECT_TRUE(os::exists(dir / ".building-base-two-a1B2c3/x"));
}

TEST(LockFile, SecondHolderWaitsForTheFirst) {
  const TestDir dir;
  Reporter quiet({});
  auto first = lock_file(dir / "lock", quiet, "").value();
  std::promise<void> waits;
  auto second = std::async(std::launch::async, [&] {
    Reporter reporter([&](const Progress&) { waits.set_value(); });
    return lock_file(dir / "lock", reporter, "waiting").ok();
  });
  waits.get_future().wait();  // said before it blocks
  first.reset();
  EXPECT_TRUE(second.get());
}

TEST(Paths, ParentAndLeafIgnoreTrailingSlashes) {
  EXPECT_EQ(parent_of("/a/b/"), "/a");
  EXPECT_EQ(parent_of("/a"), "/");
  EXPECT_EQ(parent_of("a"), ".");
  EXPECT_EQ(leaf_of("/a/b//"), "b");
  EXPECT_EQ(absolute("/x/").value(), "/x");
  EXPECT_EQ(absolute("").error().reason, "template.bad_path");
}

}  // namespace
}  // namespace space::node::tmpl
