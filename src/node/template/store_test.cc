// SPDX-License-Identifier: Apache-2.0
#include "node/template/store.h"

#include <gtest/gtest.h>

#include "node/template/digest.h"
#include "node/template/test_dir.h"

namespace space::node::tmpl {
namespace {

constexpr const char* kRecipe = "name = \"base\"\nsuite = \"bookworm\"\n";

// A built template in `dir`/`sub`, whose disk holds "disk".
void write_template(const TestDir& dir, const std::string& sub, const std::string& name) {
  Manifest m;
  m.name = name;
  m.suite = "bookworm";
  m.recipe_digest = parse_recipe(kRecipe)->digest();
  m.disk_sha256 = sha256_hex(as_bytes("disk"));
  m.disk_bytes = 4;
  m.initramfs_sha256 = std::string(64, '0');
  m.kernel_version = sub;  // tells two of one name apart
  dir.write(sub + "/disk.img", "disk");
  dir.write(sub + "/vmlinuz", "k");
  dir.write(sub + "/initramfs", "i");
  dir.write(sub + "/manifest.json", to_json(m));
}

class TemplateStoreTest : public testing::Test {
 protected:
  TestDir dir_;
  TemplateStore store_{{dir_ / "own", dir_ / "shared"}, {dir_ / "recipes"}};

  std::string reason_of_ready(const std::string& name) {
    auto entry = store_.ready(name);
    return entry.ok() ? "(ready)" : entry.error().reason;
  }
};

TEST_F(TemplateStoreTest, AbsentDirectoriesAreEmpty) {
  EXPECT_TRUE(store_.list()->empty());
}

TEST_F(TemplateStoreTest, BuiltOnesAndRecipesAreListedOnceByName) {
  write_template(dir_, "shared/base", "base");
  dir_.write("recipes/base.toml", kRecipe);
  dir_.write("recipes/dev.toml", "name = \"dev\"\nsuite = \"bookworm\"\n");
  const auto entries = store_.list().value();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "base");
  EXPECT_EQ(entries[0].state, StoreEntry::State::kReady);
  EXPECT_FALSE(entries[0].outdated);
  EXPECT_EQ(entries[1].name, "dev");
  EXPECT_EQ(entries[1].state, StoreEntry::State::kRecipe);
}

TEST_F(TemplateStoreTest, FirstDirectoryWins) {
  write_template(dir_, "own/base", "base");
  write_template(dir_, "shared/base", "base");
  EXPECT_EQ(store_.ready("base")->manifest->kernel_version, "own/base");
}

TEST_F(TemplateStoreTest, UnfinishedBuildIsInvisible) {
  write_template(dir_, "own/.building-base-a1b2c3", "base");
  EXPECT_TRUE(store_.list()->empty());
  EXPECT_EQ(reason_of_ready(".building-base-a1b2c3"), "template.malformed_name");
}

TEST_F(TemplateStoreTest, ChangedRecipeMakesABuiltTemplateOutdated) {
  write_template(dir_, "own/base", "base");
  dir_.write("recipes/base.toml", std::string(kRecipe) + "packages = [\"git\"]\n");
  EXPECT_TRUE(store_.ready("base")->outdated);
}

TEST_F(TemplateStoreTest, EachStateHasItsReason) {
  dir_.write("recipes/dev.toml", "name = \"dev\"\nsuite = \"bookworm\"\n");
  dir_.write("recipes/bad.toml", "name = 7\n");
  dir_.write("own/half/disk.img", "x");
  EXPECT_EQ(reason_of_ready("dev"), "template.not_built");
  EXPECT_EQ(reason_of_ready("bad"), "template.malformed_recipe");
  EXPECT_EQ(reason_of_ready("half"), "template.not_built");
  EXPECT_EQ(reason_of_ready("none"), "template.unknown");
  EXPECT_EQ(reason_of_ready("../own"), "template.malformed_name");
  EXPECT_EQ(reason_of_ready(std::string("a\0b", 3)), "template.malformed_name");
}

TEST_F(TemplateStoreTest, DirectoryWithAnotherTemplatesManifestIsBroken) {
  write_template(dir_, "own/copy", "base");
  EXPECT_EQ(reason_of_ready("copy"), "template.malformed_manifest");
}

TEST_F(TemplateStoreTest, RemovedTemplateGoesBackToItsRecipe) {
  write_template(dir_, "own/base", "base");
  write_template(dir_, "shared/base", "base");
  dir_.write("recipes/base.toml", kRecipe);
  ASSERT_TRUE(store_.remove("base").ok());
  EXPECT_EQ(store_.find("base")->state, StoreEntry::State::kRecipe);
  EXPECT_TRUE(os::list_directory(dir_ / "own")->empty());
  EXPECT_EQ(store_.remove("base").error().reason, "template.not_built");
}

TEST_F(TemplateStoreTest, ChangedDiskFailsItsDigest) {
  write_template(dir_, "own/base", "base");
  EXPECT_TRUE(store_.verify("base").ok());
  dir_.write("own/base/disk.img", "dusk");
  EXPECT_EQ(store_.verify("base").error().reason, "template.digest_mismatch");
}

}  // namespace
}  // namespace space::node::tmpl
