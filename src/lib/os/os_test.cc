// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "lib/os/file.h"
#include "lib/os/random.h"
#include "lib/os/unix_socket.h"

namespace space::os {
namespace {

struct Scratch : ::testing::Test {
  std::string dir;
  void SetUp() override {
    char pattern[] = "/tmp/space-os-XXXXXX";
    dir = ::mkdtemp(pattern);
  }
  void TearDown() override { remove_tree(dir).ignore("test clean-up"); }
};
using FileTest = Scratch;
using UnixSocketTest = Scratch;

TEST_F(FileTest, AtomicWriteReplacesAndLeavesNoTemporary) {
  ASSERT_TRUE(write_file_atomic(dir + "/f", "one", Durability::kSynced).ok());
  ASSERT_TRUE(write_file_atomic(dir + "/f", "two", Durability::kBuffered).ok());
  EXPECT_EQ(*read_file(dir + "/f"), "two");
  EXPECT_EQ(list_directory(dir)->size(), 1U);
}

TEST_F(FileTest, ReadRefusesMoreThanItsBound) {
  ASSERT_TRUE(write_file_atomic(dir + "/f", std::string(100, 'x'), Durability::kBuffered).ok());
  EXPECT_EQ(read_file(dir + "/f", 99).error().reason, "os.file_too_large");
  EXPECT_EQ(read_file(dir + "/none").error().code, Code::kNotFound);
}

TEST_F(FileTest, RemoveTreeDoesNotFollowLinks) {
  ASSERT_TRUE(make_directories(dir + "/tree/a/b").ok());
  ASSERT_TRUE(write_file_atomic(dir + "/kept", "x", Durability::kBuffered).ok());
  ASSERT_EQ(::symlink((dir + "/kept").c_str(), (dir + "/tree/a/link").c_str()), 0);
  ASSERT_EQ(::symlink(dir.c_str(), (dir + "/tree/a/b/up").c_str()), 0);
  ASSERT_TRUE(remove_tree(dir + "/tree").ok());
  EXPECT_FALSE(exists(dir + "/tree"));
  EXPECT_TRUE(exists(dir + "/kept"));
  EXPECT_TRUE(remove_tree(dir + "/tree").ok());
}

TEST_F(UnixSocketTest, PassesDescriptorsAndBytes) {
  auto pair = *unix_pair();
  ASSERT_TRUE(write_file_atomic(dir + "/f", "inside", Durability::kBuffered).ok());
  Fd file = *open_file(dir + "/f", O_RDONLY);
  ASSERT_EQ(*send_with_fds(pair.first.get(), as_bytes("hi"), {file.get()}), 2U);
  std::byte buffer[16];
  std::vector<Fd> fds;
  ASSERT_EQ(*receive_with_fds(pair.second.get(), buffer, sizeof buffer, fds), 2U);
  ASSERT_EQ(fds.size(), 1U);
  char text[16] = {};
  ASSERT_EQ(::read(fds[0].get(), text, sizeof text), 6);
  EXPECT_STREQ(text, "inside");
  EXPECT_EQ(receive_with_fds(pair.second.get(), buffer, sizeof buffer, fds).error().reason, "os.would_block");
  pair.first.reset();
  EXPECT_EQ(*receive_with_fds(pair.second.get(), buffer, sizeof buffer, fds), 0U);
}

TEST_F(UnixSocketTest, LongPathsWork) {
  std::string deep = dir + "/" + std::string(120, 'd');
  ASSERT_TRUE(make_directory(deep).ok());
  Fd listener = *listen_unix(deep + "/s.sock");
  EXPECT_TRUE(connect_unix(deep + "/s.sock").ok());
  EXPECT_EQ(connect_unix(deep + "/none.sock").error().code, Code::kNotFound);
}

TEST(RandomTest, IdsAreWellFormedAndDiffer) {
  SystemRandom random;
  auto a = random.id<SessionId>(), b = random.id<SessionId>();
  EXPECT_TRUE(is_well_formed_id(a.str()));
  EXPECT_NE(a, b);
  SeededRandom one(5), two(5);
  EXPECT_EQ(one.id_text(), two.id_text());
}

}  // namespace
}  // namespace space::os
