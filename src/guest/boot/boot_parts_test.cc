// SPDX-License-Identifier: Apache-2.0
// The pure parts of booting.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/boot/grow.h"
#include "guest/boot/modules.h"
#include "guest/boot/settings.h"
#include "lib/os/file.h"

namespace space::guest::boot {
namespace {

TEST(Settings, AreReadFromTheCommandLine) {
  Settings settings = parse_command_line(
      "console=ttyS0 quiet space.hostname=box-7 space.init=systemd space.trace space.tmp=memory "
      "space.root=/dev/vdb\n");
  EXPECT_EQ(settings.hostname, "box-7");
  EXPECT_EQ(settings.init, Init::kSystemd);
  EXPECT_TRUE(settings.trace);
  EXPECT_TRUE(settings.tmp_in_memory);
  EXPECT_EQ(settings.root, "/dev/vdb");
}

TEST(Settings, UnknownAndMalformedWordsChangeNothing) {
  for (std::string_view line : {"", "space.", "space.hostname=", "space.hostname=a_b", "space.hostname=-a",
                                "space.init=other", "space.root=vda", "  \n", "space.hostname"}) {
    Settings settings = parse_command_line(line);
    EXPECT_EQ(settings.hostname, "sandbox") << line;
    EXPECT_EQ(settings.init, Init::kSpaced) << line;
    EXPECT_EQ(settings.root, "/dev/vda") << line;
  }
  EXPECT_EQ(parse_command_line("space.hostname=" + std::string(64, 'a')).hostname, "sandbox");
}

TEST(ModuleOrder, EachLineSaysWhen) {
  auto lines =
      parse_order("virtio.ko\nvirtio_net.ko device=1\n\ntcp_diag.ko later\nx.ko someday\n../y.ko\nlast.ko");
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0].file, "virtio.ko");
  EXPECT_EQ(lines[0].when, ModuleLine::When::kNow);
  EXPECT_EQ(lines[1].when, ModuleLine::When::kDevice);
  EXPECT_EQ(lines[1].device, 1U);
  EXPECT_EQ(lines[2].when, ModuleLine::When::kLater);
  EXPECT_EQ(lines[3].file, "last.ko");
}

TEST(Superblock, OfARealFileSystemIsUnderstood) {
  char path[] = "/tmp/spaced-ext4-XXXXXX";
  os::Fd file(::mkstemp(path));
  ASSERT_EQ(::ftruncate(file.get(), 64 << 20), 0);
  pid_t pid = ::fork();
  if (pid == 0) {
    ::execlp("mke2fs", "mke2fs", "-q", "-F", "-t", "ext4", path, nullptr);
    ::_exit(127);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  if (status != 0) GTEST_SKIP() << "mke2fs is missing";
  std::string bytes(1024, 0);
  ASSERT_EQ(::pread(file.get(), bytes.data(), bytes.size(), 1024), 1024);
  auto size = parse_superblock(bytes);
  ASSERT_TRUE(size.has_value());
  EXPECT_EQ(size->blocks * size->block_bytes, 64u << 20);
  ::unlink(path);
}

TEST(Superblock, OtherBytesAreNone) {
  EXPECT_FALSE(parse_superblock("").has_value());
  EXPECT_FALSE(parse_superblock(std::string(1023, 0)).has_value());
  EXPECT_FALSE(parse_superblock(std::string(1024, '\xff')).has_value());
}

}  // namespace
}  // namespace space::guest::boot
