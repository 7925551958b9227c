// SPDX-License-Identifier: Apache-2.0
#include "node/template/root_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "node/template/test_dir.h"

namespace space::node::tmpl {
namespace {

void set_mtime(const std::string& path, std::int64_t seconds) {
  const timespec times[2] = {{seconds, 5}, {seconds, 5}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW), 0);
}

struct stat stat_of(const std::string& path) {
  struct stat st{};
  EXPECT_EQ(::lstat(path.c_str(), &st), 0) << path;
  return st;
}

Recipe with_file(const std::string& path) {
  Recipe recipe;
  recipe.files = {{path, "content", 0640}};
  return recipe;
}

TEST(Trim, MachineStateIsRemovedAndDirectoriesKept) {
  const TestDir root;
  for (const char* name : {"etc/machine-id", "etc/hostname", "etc/resolv.conf", "var/lib/systemd/random-seed",
                           "var/lib/apt/lists/x_Packages", "var/cache/apt/pkgcache.bin", "tmp/x/y"}) {
    root.write(name, "something");
  }
  root.write("var/log/dpkg.log", "2026 install");
  root.write("etc/passwd", "root");
  ASSERT_TRUE(trim(root.path()).ok());
  EXPECT_EQ(os::read_file(root / "etc/machine-id").value(), "");
  EXPECT_FALSE(os::exists(root / "etc/hostname"));
  EXPECT_FALSE(os::exists(root / "etc/resolv.conf"));
  EXPECT_FALSE(os::exists(root / "var/lib/systemd/random-seed"));
  EXPECT_EQ(os::list_directory(root / "var/lib/apt/lists").value(), std::vector<std::string>{"partial"});
  EXPECT_EQ(os::list_directory(root / "var/cache/apt").value(), std::vector<std::string>{"archives"});
  EXPECT_TRUE(os::list_directory(root / "tmp").value().empty());
  EXPECT_EQ(os::read_file(root / "var/log/dpkg.log").value(), "");
  EXPECT_EQ(os::read_file(root / "etc/passwd").value(), "root");
}

TEST(FixTimes, FreshFilesGetTheFixedTimeAndPackagedOnesKeepTheirs) {
  const TestDir root;
  constexpr std::int64_t kPackaged = 1'700'000'000;
  const std::int64_t started = 1'800'000'000;
  set_mtime(root.write("dir/packaged", "x"), kPackaged);
  set_mtime(root.write("dir/fresh", "x"), started + 7);
  ASSERT_EQ(::symlink("fresh", (root / "dir/link").c_str()), 0);
  set_mtime(root / "dir/link", started + 8);
  set_mtime(root / "dir", started + 9);
  set_mtime(root.path(), started + 9);
  EXPECT_EQ(fix_times(root.path(), started).value(), 5u);
  EXPECT_EQ(stat_of(root / "dir/packaged").st_mtime, kPackaged);
  EXPECT_EQ(stat_of(root / "dir/packaged").st_atime, kPackaged);
  for (const std::string& path : {root / "dir/fresh", root / "dir/link", root / "dir", root.path()}) {
    EXPECT_EQ(stat_of(path).st_mtim.tv_sec, kFixedTime) << path;
    EXPECT_EQ(stat_of(path).st_mtim.tv_nsec, 0) << path;
  }
}

TEST(FixTimes, HardLinksCountOnce) {
  const TestDir root;
  root.write("a", "x");
  ASSERT_EQ(::link((root / "a").c_str(), (root / "b").c_str()), 0);
  EXPECT_EQ(fix_times(root.path(), 0).value(), 2u);  // the root and the file
}

TEST(FixTimes, DaysInShadowAreFixedAndTheRestIsKept) {
  const TestDir root;
  ASSERT_EQ(::chmod(root.write("etc/shadow", "root:*:20787:0:99999:7:::\nno-day:!::0:::::\n").c_str(), 0640),
            0);
  ASSERT_TRUE(fix_times(root.path(), 0).ok());
  EXPECT_EQ(os::read_file(root / "etc/shadow").value(), "root:*:20089:0:99999:7:::\nno-day:!::0:::::\n");
  EXPECT_EQ(stat_of(root / "etc/shadow").st_mode & 07777u, 0640u);
}

TEST(ApplyRecipe, FilesAreWrittenWithTheirMode) {
  const TestDir root;
  Reporter quiet({});
  root.write("etc/hosts", "kept");
  ASSERT_TRUE(apply_recipe(with_file("/opt/new/file"), root.path(), quiet).ok());
  EXPECT_EQ(os::read_file(root / "opt/new/file").value(), "content");
  EXPECT_EQ(stat_of(root / "opt/new/file").st_mode & 07777u, 0640u);
  EXPECT_EQ(os::read_file(root / "etc/hosts").value(), "kept");
}

TEST(ApplyRecipe, FileThroughALinkIsRefused) {
  const TestDir root;
  const TestDir outside;
  Reporter quiet({});
  root.write("etc/hosts", "");
  ASSERT_EQ(::symlink(outside.path().c_str(), (root / "out").c_str()), 0);
  const auto applied = apply_recipe(with_file("/out/file"), root.path(), quiet);
  ASSERT_FALSE(applied.ok());
  EXPECT_EQ(applied.error().reason, "template.bad_file");
  EXPECT_FALSE(os::exists(outside / "file"));
}

}  // namespace
}  // namespace space::node::tmpl
