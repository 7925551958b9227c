// SPDX-License-Identifier: Apache-2.0
#include "node/template/disk_image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include <fmt/core.h>

#include "lib/base/bytes.h"
#include "lib/os/file.h"
#include "node/template/digest.h"
#include "node/template/root_tree.h"
#include "node/template/workspace.h"

namespace space::node::tmpl {
namespace {

// Any fixed values do; every disk made here is alike, and none is mounted beside another.
constexpr const char* kUuid = "6b0d2a52-6f35-4d6e-9d5b-5a0f6d2c7b10";
constexpr const char* kHashSeed = "6b0d2a52-6f35-4d6e-9d5b-5a0f6d2c7b11";
// Small, since a journal that wraps late would write each of its blocks once into every session's own layer;
// but growing the file system in the guest takes 1,029 credits in one transaction, and a transaction may have
// a quarter of the journal.
constexpr const char* kJournalMib = "32";
constexpr std::uint64_t kFirstFreeInode = 11;  // lost+found; the root directory is 2

// Inodes in use according to the superblock: all of 1..10, and one for each file.
Result<std::uint64_t> used_inodes(const std::string& path) {
  SPACE_TRY(const os::Fd fd, os::open_file(path, O_RDONLY));
  std::array<std::byte, 1024> superblock;
  if (::pread(fd.get(), superblock.data(), superblock.size(), 1024) !=
      static_cast<ssize_t>(superblock.size())) {
    return errno_error(errno, "os.file", "cannot read the superblock of " + path);
  }
  const auto total = load_le<std::uint32_t>(superblock.data());
  const auto free = load_le<std::uint32_t>(superblock.data() + 16);
  return total - free;
}

// mke2fs copies change times from the tree, and nobody can set those of a file: set them in the image.
Result<void> fix_change_times(const std::string& path, std::uint64_t last_inode, Reporter& reporter) {
  std::string commands = fmt::format("set_inode_field <2> ctime @{0}\n", kFixedTime);
  for (std::uint64_t inode = kFirstFreeInode; inode <= last_inode; ++inode) {
    commands += fmt::format("set_inode_field <{}> ctime @{}\n", inode, kFixedTime);
  }
  const std::string script = path + ".debugfs";
  SPACE_CHECK_OK(os::write_file_atomic(script, commands, os::Durability::kBuffered));
  Tool tool;
  tool.argv = {"debugfs", "-w", "-f", script, path};
  tool.environment = {fmt::format("E2FSPROGS_FAKE_TIME={}", kFixedTime)};
  std::string complaint;
  // debugfs ends with status 0 whatever its commands did; it only echoes them and its name.
  auto ran = run_tool(tool, reporter, [&](std::string_view line) {
    if (!line.starts_with("debugfs") && complaint.empty()) complaint = line;
  });
  SPACE_CHECK_OK(os::remove_tree(script));
  if (!ran.ok()) return std::move(ran).error();
  if (!complaint.empty())
    return make_error(Code::kInternal, "template.tool_failed", "debugfs: " + escape(complaint));
  return {};
}

}  // namespace

Result<DiskImage> make_disk_image(const std::string& root, std::uint64_t inodes, const std::string& path,
                                  std::uint64_t bytes, Reporter& reporter) {
  reporter.say(fmt::format("making the {} root disk", format_size(bytes)));
  Tool make;
  make.argv = {"mke2fs",
               "-q",
               "-F",
               "-t",
               "ext4",
               "-d",
               root,
               "-L",
               "space-root",
               "-m",
               "0",
               "-U",
               kUuid,
               "-J",
               fmt::format("size={}", kJournalMib),
               "-E",
               fmt::format("hash_seed={},root_owner=0:0,nodiscard,lazy_journal_init=1,lazy_itable_init=1,"
                           "assume_storage_prezeroed=1",
                           kHashSeed),
               path,
               fmt::format("{}M", bytes / kMiB)};
  make.environment = {fmt::format("E2FSPROGS_FAKE_TIME={}", kFixedTime)};
  auto made = run_tool(make, reporter);
  if (!made.ok()) {
    Error error = std::move(made).error();
    const auto left = os::free_bytes(parent_of(path));
    if (error.reason == "template.no_space" && left.ok() && *left > 64 * kMiB) {
      return field_error("defaults.disk", "template.disk_too_small",
                         fmt::format("the packages don't fit on a disk of {}", format_size(bytes)));
    }
    return error;
  }
  SPACE_TRY(const std::uint64_t used, used_inodes(path));
  const std::uint64_t expected = kFirstFreeInode + inodes - 1;  // the tree's root is inode 2
  if (used != expected) {
    return make_error(Code::kInternal, "template.tool_failed",
                      fmt::format("mke2fs made {} inodes where {} were expected", used, expected));
  }
  SPACE_CHECK_OK(fix_change_times(path, used, reporter));
  Tool dig;
  dig.argv = {"fallocate", "--dig-holes", path};
  SPACE_CHECK_OK(run_tool(dig, reporter));
  reporter.say("computing the digest of the root disk");
  DiskImage out;
  SPACE_TRY(out.sha256, sha256_file(path));
  SPACE_TRY(const os::Fd fd, os::open_file(path, O_RDWR));
  if (::fsync(fd.get()) != 0) return errno_error(errno, "os.file", "cannot write " + path);
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return errno_error(errno, "os.file", "cannot stat " + path);
  out.bytes = static_cast<std::uint64_t>(st.st_size);
  out.stored_bytes = static_cast<std::uint64_t>(st.st_blocks) * 512;
  return out;
}

}  // namespace space::node::tmpl
