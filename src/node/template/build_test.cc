// SPDX-License-Identifier: Apache-2.0
// Real builds: packages from the machine's own archive, a real kernel, the real initramfs program.
#include "node/template/build.h"

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "node/template/build_main.h"
#include "node/template/digest.h"
#include "node/template/test_dir.h"

namespace space::node::tmpl {
namespace {

Recipe small_recipe() {
  return parse_recipe(
             "name = \"small\"\nsuite = \"bookworm\"\npackages = [\"python3-minimal\"]\n[defaults]\ndisk = "
             "\"1GiB\"\n"
             "[[files]]\npath = \"/etc/made-here\"\ncontent = \"yes\"\n"
             "[[run]]\nargv = [\"useradd\", \"--create-home\", \"worker\"]\n")
      .value();
}

class BuildTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    const Locations places = locate(program_dir());
    options_.spaced = places.spaced;
    options_.mkinitramfs = places.mkinitramfs;
    options_.cache_dir = dir_ / "cache";
    options_.out_dir = dir_ / "templates/small";
    if (!os::exists(options_.spaced) || !os::exists(options_.mkinitramfs))
      GTEST_SKIP() << "spaced is not built";
  }

  Result<Manifest> build_now(const Recipe& recipe) {
    lines_.clear();
    return build(recipe, options_, clock_, [&](const Progress& p) { lines_.push_back(p.line); });
  }

  TestDir dir_;
  BuildOptions options_;
  SystemClock clock_;
  std::vector<std::string> lines_;
};

TEST_F(BuildTest, TwoBuildsFromTheSamePackagesAreByteIdentical) {
  const auto first = build_now(small_recipe());
  ASSERT_TRUE(first.ok()) << first.error().describe();
  options_.out_dir = dir_ / "elsewhere/small";
  const auto second = build_now(small_recipe());
  ASSERT_TRUE(second.ok()) << second.error().describe();
  EXPECT_EQ(first->disk_sha256, second->disk_sha256);
  EXPECT_EQ(first->initramfs_sha256, second->initramfs_sha256);
  EXPECT_EQ(second->disk_sha256, sha256_file(options_.out_dir + "/" + kDiskFile).value());
  EXPECT_EQ(load_manifest(options_.out_dir).value(), *second);
}

TEST_F(BuildTest, UnchangedRecipeKeepsTheDiskAndItsInode) {
  ASSERT_TRUE(build_now(small_recipe()).ok());
  struct stat before{};
  ASSERT_EQ(::stat((options_.out_dir + "/" + kDiskFile).c_str(), &before), 0);
  Recipe recipe = small_recipe();
  recipe.description = "renamed";
  const auto refreshed = build_now(recipe);
  ASSERT_TRUE(refreshed.ok()) << refreshed.error().describe();
  struct stat after{};
  ASSERT_EQ(::stat((options_.out_dir + "/" + kDiskFile).c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(refreshed->description, "renamed");
  EXPECT_EQ(lines_.front(), "the root disk is up to date");
}

TEST_F(BuildTest, UnknownPackageIsNamedAndNothingIsLeft) {
  Recipe recipe = small_recipe();
  recipe.packages = {"space-no-such-package"};
  const auto built = build_now(recipe);
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().reason, "template.package_not_found") << built.error().describe();
  EXPECT_NE(built.error().message.find("space-no-such-package"), std::string::npos);
  EXPECT_EQ(os::list_directory(dir_ / "templates").value(), std::vector<std::string>{".small.lock"});
}

TEST_F(BuildTest, UnreachableArchiveIsNoNetwork) {
  options_.sources_file = dir_.write(
      "sources", "Types: deb\nURIs: http://127.0.0.1:1/debian\nSuites: bookworm\nComponents: main\n");
  const auto built = build_now(small_recipe());
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().reason, "template.no_network") << built.error().describe();
}

TEST_F(BuildTest, FailingStepFailsTheBuild) {
  Recipe recipe = small_recipe();
  recipe.run = {RunStep{{"false"}}};
  const auto built = build_now(recipe);
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().reason, "template.tool_failed");
  EXPECT_FALSE(os::exists(options_.out_dir));
}

}  // namespace
}  // namespace space::node::tmpl
