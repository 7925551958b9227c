// SPDX-License-Identifier: Apache-2.0
#include "guest/boot/grow.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "lib/base/bytes.h"
#include "lib/os/fd.h"

#ifndef EXT4_IOC_RESIZE_FS
#define EXT4_IOC_RESIZE_FS _IOW('f', 16, std::uint64_t)  // fs/ext4/ext4.h; not in the exported headers
#endif

namespace space::guest::boot {

std::optional<Ext4Size> parse_superblock(std::string_view bytes) {
  if (bytes.size() < 1024) return std::nullopt;
  auto at = [&](std::size_t offset) { return as_bytes(bytes).data() + offset; };
  if (load_le<std::uint16_t>(at(0x38)) != 0xef53) return std::nullopt;
  auto log_block = load_le<std::uint32_t>(at(0x18));
  if (log_block > 6) return std::nullopt;
  bool wide = (load_le<std::uint32_t>(at(0x60)) & 0x80) != 0;  // INCOMPAT_64BIT
  std::uint64_t blocks = load_le<std::uint32_t>(at(4));
  if (wide) blocks |= std::uint64_t{load_le<std::uint32_t>(at(0x150))} << 32;
  return Ext4Size{blocks, 1024U << log_block};
}

Result<bool> grow_root(const std::string& device, const std::string& root) {
  os::Fd disk(::open(device.c_str(), O_RDONLY | O_CLOEXEC));
  char superblock[1024];
  std::uint64_t disk_bytes = 0;
  if (!disk || ::pread(disk.get(), superblock, sizeof superblock, 1024) != sizeof superblock ||
      ::ioctl(disk.get(), BLKGETSIZE64, &disk_bytes) != 0) {  // SAFETY: takes a u64
    return errno_error(errno, "guest.grow", "read " + device);
  }
  auto size = parse_superblock({superblock, sizeof superblock});
  if (!size)
    return make_error(Code::kFailedPrecondition, "guest.grow", device + " holds no ext4 file system");
  if (size->blocks * size->block_bytes + kWorthwhileBytes > disk_bytes) return false;
  os::Fd mounted(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::uint64_t blocks = disk_bytes / size->block_bytes;
  if (!mounted || ::ioctl(mounted.get(), EXT4_IOC_RESIZE_FS, &blocks) != 0) {  // SAFETY: takes a u64
    return errno_error(errno, "guest.grow", "grow the file system of " + device);
  }
  return true;
}

}  // namespace space::guest::boot
