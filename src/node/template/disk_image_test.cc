// SPDX-License-Identifier: Apache-2.0
#include "node/template/disk_image.h"

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "node/template/digest.h"
#include "node/template/root_tree.h"
#include "node/template/test_dir.h"

namespace space::node::tmpl {
namespace {

constexpr std::uint64_t kBytes = 256 * kMiB;

// A tree with the kinds of file that a root has. Returns its number of inodes.
std::uint64_t make_tree(const TestDir& root) {
  root.write("usr/bin/tool", std::string(100'000, 't'));
  root.write("etc/conf", "x");
  os::make_directories(root / "var/empty").value();
  EXPECT_EQ(::symlink("usr/bin", (root / "bin").c_str()), 0);
  EXPECT_EQ(::link((root / "etc/conf").c_str(), (root / "etc/conf2").c_str()), 0);
  return fix_times(root.path(), 1).value();
}

std::string run(const std::vector<std::string>& argv) {
  Reporter quiet({});
  Tool tool;
  tool.argv = argv;
  auto out = run_tool(tool, quiet);
  return out.ok() ? *out : out.error().describe();
}

TEST(DiskImage, EqualTreesMadeApartGiveEqualBytes) {
  Reporter quiet({});
  const TestDir out;
  std::string digests[2];
  for (std::string& digest : digests) {
    const TestDir root;  // other inodes and other change times than the first
    const std::uint64_t inodes = make_tree(root);
    const auto image = make_disk_image(root.path(), inodes, out / "disk.img", kBytes, quiet);
    ASSERT_TRUE(image.ok()) << image.error().describe();
    digest = image->sha256;
    ASSERT_EQ(::unlink((out / "disk.img").c_str()), 0);
  }
  EXPECT_EQ(digests[0], digests[1]);
}

TEST(DiskImage, FileSystemIsCleanAndHoldsTheTree) {
  Reporter quiet({});
  const TestDir root;
  const TestDir out;
  const std::uint64_t inodes = make_tree(root);
  const auto image = make_disk_image(root.path(), inodes, out / "disk.img", kBytes, quiet);
  ASSERT_TRUE(image.ok()) << image.error().describe();
  EXPECT_EQ(image->bytes, kBytes);
  EXPECT_LT(image->stored_bytes, 4 * kMiB);  // sparse: the tree is 100 kB, an empty journal takes nothing
  EXPECT_EQ(image->sha256, sha256_file(out / "disk.img").value());
  EXPECT_NE(run({"e2fsck", "-f", "-n", out / "disk.img"}).find("space-root: 19/"), std::string::npos)
      << run({"e2fsck", "-f", "-n", out / "disk.img"});
  EXPECT_NE(run({"debugfs", "-R", "cat /etc/conf2", out / "disk.img"}).find("x"), std::string::npos);
}

TEST(DiskImage, TreeThatDoesNotFitIsRefusedWithTheFieldToChange) {
  Reporter quiet({});
  const TestDir root;
  const TestDir out;
  root.write("big", std::string(250u << 20, 'b'));
  const std::uint64_t inodes = fix_times(root.path(), 1).value();
  const auto image = make_disk_image(root.path(), inodes, out / "disk.img", kBytes, quiet);
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.error().reason, "template.disk_too_small") << image.error().describe();
  EXPECT_EQ(image.error().field, "defaults.disk");
}

}  // namespace
}  // namespace space::node::tmpl
