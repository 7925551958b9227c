// SPDX-License-Identifier: Apache-2.0
#include "node/template/manifest.h"

#include <gtest/gtest.h>

#include "node/template/test_dir.h"

namespace space::node::tmpl {
namespace {

Manifest sample() {
  Manifest m;
  m.name = "base";
  m.description = "with \"quotes\"";
  m.suite = "bookworm";
  m.init = Init::kSystemd;
  m.defaults = {2, 1 * kGiB, 8 * kGiB};
  m.recipe_digest = std::string(64, 'a');
  m.disk_sha256 = std::string(64, 'b');
  m.disk_bytes = 4096;
  m.stored_bytes = 1024;
  m.kernel_version = "6.1.0-1-cloud-amd64";
  m.initramfs_sha256 = std::string(64, 'c');
  m.built = WallTime(std::chrono::milliseconds(1'750'000'000'123));
  return m;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string reason_of(const std::string& text) {
  const auto manifest = parse_manifest(text);
  return manifest.ok() ? "(accepted)" : manifest.error().reason;
}

TEST(Manifest, SurvivesTheRoundTrip) {
  const auto read = parse_manifest(to_json(sample()));
  ASSERT_TRUE(read.ok()) << read.error().describe();
  EXPECT_EQ(*read, sample());
}

TEST(Manifest, UnknownMemberIsIgnored) {
  EXPECT_EQ(reason_of(replaced(to_json(sample()), "{\"format\"", "{\"later\":1,\"format\"")), "(accepted)");
}

TEST(Manifest, NewerFormatIsRefusedWithAReason) {
  EXPECT_EQ(reason_of(replaced(to_json(sample()), "\"format\":1", "\"format\":2")), "template.newer_format");
}

TEST(Manifest, DamagedTextIsRefused) {
  EXPECT_EQ(reason_of(""), "template.malformed_manifest");
  EXPECT_EQ(reason_of("[]"), "template.malformed_manifest");
  EXPECT_EQ(reason_of(to_json(sample()).substr(0, 100)), "template.malformed_manifest");
  EXPECT_EQ(reason_of(replaced(to_json(sample()), "\"base\"", "\"../base\"")), "template.malformed_manifest");
  EXPECT_EQ(reason_of(replaced(to_json(sample()), std::string(64, 'b'), "b")), "template.malformed_manifest");
  EXPECT_EQ(reason_of(replaced(to_json(sample()), ":4096", ":-1")), "template.malformed_manifest");
  EXPECT_EQ(reason_of(replaced(to_json(sample()), "\"vcpus\":2", "\"vcpus\":0")),
            "template.malformed_manifest");
}

TEST(LoadManifest, WholeDirectoryIsRead) {
  const TestDir dir;
  dir.write("manifest.json", to_json(sample()));
  dir.write("disk.img", std::string(4096, 'x'));
  dir.write("vmlinuz", "k");
  dir.write("initramfs", "i");
  const auto manifest = load_manifest(dir.path());
  ASSERT_TRUE(manifest.ok()) << manifest.error().describe();
  EXPECT_EQ(*manifest, sample());
}

TEST(LoadManifest, DirectoryWithoutOneIsNotATemplate) {
  const TestDir dir;
  EXPECT_EQ(load_manifest(dir.path()).error().reason, "template.not_built");
}

TEST(LoadManifest, ShortDiskIsIncomplete) {
  const TestDir dir;
  dir.write("manifest.json", to_json(sample()));
  dir.write("disk.img", "short");
  dir.write("vmlinuz", "k");
  dir.write("initramfs", "i");
  EXPECT_EQ(load_manifest(dir.path()).error().reason, "template.incomplete");
}

}  // namespace
}  // namespace space::node::tmpl
