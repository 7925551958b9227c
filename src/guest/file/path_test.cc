// SPDX-License-Identifier: Apache-2.0
#include "guest/file/path.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace space::guest {
namespace {

TEST(Path, MustBeAbsoluteAndBounded) {
  EXPECT_TRUE(check_path("/").ok());
  EXPECT_TRUE(check_path("/a/../b").ok());
  EXPECT_TRUE(check_path("/" + std::string(4094, 'x')).ok());
  EXPECT_FALSE(check_path("/" + std::string(4095, 'x')).ok());
  EXPECT_FALSE(check_path("").ok());
  EXPECT_FALSE(check_path("a").ok());
  EXPECT_FALSE(check_path(std::string_view("/a\0b", 4)).ok());
  EXPECT_EQ(check_path("a", "from").error().field, "from");
}

TEST(Path, PartsAreTakenWithoutTrailingSlashes) {
  EXPECT_EQ(parent_of("/a/b"), "/a");
  EXPECT_EQ(parent_of("/a/b//"), "/a");
  EXPECT_EQ(parent_of("/a"), "/");
  EXPECT_EQ(parent_of("/"), "/");
  EXPECT_EQ(name_of("/a/b/"), "b");
  EXPECT_EQ(name_of("/"), "");
  EXPECT_EQ(without_trailing_slashes("/a//"), "/a");
  EXPECT_EQ(without_trailing_slashes("///"), "/");
}

TEST(FileError, HasAStableReasonAndAnEscapedPath) {
  EXPECT_EQ(file_error(ENOSPC, "write", "/a").reason, "guest.disk_full");
  EXPECT_EQ(file_error(ENOSPC, "write", "/a").code, Code::kResourceExhausted);
  EXPECT_EQ(file_error(EIO, "write", "/a").reason, "guest.file");
  EXPECT_EQ(file_error(ENOENT, "open", "/a\x1b[31m").message, "open /a\\x1b[31m: No such file or directory");
}

}  // namespace
}  // namespace space::guest
