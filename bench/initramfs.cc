// SPDX-License-Identifier: Apache-2.0
#include "bench/initramfs.h"

#include <cstdio>
#include <string_view>

#include "lib/os/file.h"

namespace space::bench {
namespace {

// One entry of a cpio archive in the "newc" format that the kernel unpacks.
void append_entry(std::string& archive, std::string_view name, unsigned mode, std::string_view content) {
  char header[128];
  std::snprintf(header, sizeof header, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", 1U, mode,
                0U, 0U, 1U, 0U, static_cast<unsigned>(content.size()), 0U, 0U, 0U, 0U,
                static_cast<unsigned>(name.size() + 1), 0U);
  archive.append(header).append(name).append(1, '\0');
  archive.resize((archive.size() + 3) / 4 * 4);
  archive.append(content);
  archive.resize((archive.size() + 3) / 4 * 4);
}

}  // namespace

Result<void> write_initramfs_with_init(const std::string& base, const std::string& init,
                                       const std::string& out) {
  SPACE_TRY(std::string archive, os::read_file(base, 256u << 20));
  SPACE_TRY(std::string program, os::read_file(init, 64u << 20));
  archive.resize((archive.size() + 3) / 4 * 4);
  append_entry(archive, "init", 0100755, program);
  append_entry(archive, "TRAILER!!!", 0, "");
  return os::write_file_atomic(out, archive, os::Durability::kBuffered);
}

}  // namespace space::bench
