// SPDX-License-Identifier: Apache-2.0
#include "node/template/digest.h"

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "node/template/test_dir.h"

namespace space::node::tmpl {
namespace {

TEST(Digest, EmptyInputHasTheKnownValue) {
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Digest, FileWithHolesHashesAsItsBytes) {
  const TestDir dir;
  const std::string path = dir / "sparse";
  const os::Fd fd = os::open_file(path, O_RDWR | O_CREAT).value();
  constexpr std::size_t kSize = 5u << 20;
  ASSERT_EQ(::ftruncate(fd.get(), kSize), 0);
  ASSERT_EQ(::pwrite(fd.get(), "middle", 6, 3u << 20), 6);
  std::string same(kSize, '\0');
  same.replace(3u << 20, 6, "middle");
  EXPECT_EQ(sha256_file(path).value(), sha256_hex(as_bytes(same)));
}

TEST(Digest, AbsentFileIsAnError) {
  EXPECT_EQ(sha256_file("/nowhere/file").error().code, Code::kNotFound);
}

}  // namespace
}  // namespace space::node::tmpl
