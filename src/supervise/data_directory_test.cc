// SPDX-License-Identifier: Apache-2.0
#include "supervise/data_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "lib/os/file.h"
#include "supervise/listen.h"

namespace space::supervise {
namespace {

struct DataDirectoryTest : ::testing::Test {
  std::string dir;
  os::SystemRandom random;
  void SetUp() override {
    char pattern[] = "/tmp/space-data-XXXXXX";
    dir = ::mkdtemp(pattern);
  }
  void TearDown() override { os::remove_tree(dir).ignore("test clean-up"); }
};

TEST_F(DataDirectoryTest, UserIdsLieAboveTwoToTheThirtyInBlocksOfTheirOwn) {
  for (const char* id : {"aaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbb", "0123456789abcdefghij"}) {
    auto users = user_ids(id, 0);
    EXPECT_GE(users->base, 1U << 30);
    EXPECT_LE(users->base, (1U << 30) + 4095 * 16384);
    EXPECT_EQ(users->base % 16384, 0U);
    EXPECT_EQ(users->control(), users->base + 1);
    EXPECT_EQ(users->base, user_ids(id, 0)->base);
  }
  EXPECT_EQ(user_ids("x", 100'000)->base, 100'000U);
  EXPECT_EQ(user_ids("x", 1000).error().reason, "supervise.usage");
  EXPECT_EQ(user_ids("x", 0xffffffff).error().reason, "supervise.usage");
}

TEST_F(DataDirectoryTest, TheKeyIsMadeOnceAndHashesAsEverybodyHashes) {
  DataDirectory data{dir};
  auto key = admin_key(data, random);
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(key->size(), 49U);
  EXPECT_EQ(key->find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"),
            std::string::npos);
  EXPECT_EQ(*admin_key(data, random), *key);
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(DataDirectoryTest, ADamagedIdIsAnErrorAndNotANewNode) {
  os::write_file_atomic(dir + "/node.id", "oops!\n", os::Durability::kBuffered).value();
  EXPECT_EQ(node_id(DataDirectory{dir}, random).error().reason, "supervise.damaged");
}

TEST_F(DataDirectoryTest, TheLayoutIsMendedOnEveryStart) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  DataDirectory data{dir};
  ASSERT_TRUE(make_layout(data, UserIds{200'000}).ok());
  os::write_file_atomic(dir + "/control/meta.db", "x", os::Durability::kBuffered).value();
  ASSERT_TRUE(make_layout(data, UserIds{300'000}).ok());
  struct stat info{};
  ASSERT_EQ(::stat((dir + "/control/meta.db").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 300'001U);
  ASSERT_EQ(::stat((dir + "/run").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0711U);
}

TEST(ListenTcp, TakesNamesAndBothFamiliesAndRefusesNonsense) {
  auto v4 = listen_tcp("localhost:0", 0);
  ASSERT_TRUE(v4.ok()) << v4.error().message;
  EXPECT_TRUE(v4->loopback);
  auto any = listen_tcp("0.0.0.0:0", 0);
  ASSERT_TRUE(any.ok());
  EXPECT_FALSE(any->loopback);
  EXPECT_TRUE(any->local_url.starts_with("http://127.0.0.1:"));
  for (const char* bad : {"", "7350", ":7350", "host", "127.0.0.1:x", "127.0.0.1:70000", "::1:80", "[::1]"}) {
    EXPECT_EQ(listen_tcp(bad, 0).error().reason, "supervise.usage") << bad;
  }
}

}  // namespace
}  // namespace space::supervise
