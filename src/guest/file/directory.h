// SPDX-License-Identifier: Apache-2.0
#pragma once
// Directories: reading them in pages, making, moving and removing. Blocking. Errors: those of file_error().

#include <dirent.h>

#include <atomic>
#include <memory>
#include <string>

#include "api/guest_generated.h"
#include "lib/base/result.h"

namespace space::guest {

// Entries in the order of the file system, in pages that fit in a message.
class DirectoryReader {
 public:
  static constexpr std::size_t kPageEntries = 200;
  // Estimated; a page ends with the entry that reaches it. The largest entry adds less than 5 KiB.
  static constexpr std::size_t kPageBytes = 32u << 10;

  Result<void> open(const std::string& path);
  // The next page; an empty one at the end. An entry that vanishes meanwhile is left out.
  Result<guestapi::DirectoryPageT> next();

 private:
  struct Close {
    void operator()(DIR* dir) const { ::closedir(dir); }
  };
  std::unique_ptr<DIR, Close> dir_;
  std::string path_;
};

Result<void> make_directory(const guestapi::MakeDirectoryT& request);
// Also across file systems, for regular files and links; a directory on another file system is
// guest.cross_device.
Result<void> move_file(const guestapi::MoveFileT& request);
// Links aren't followed. A recursive removal stops soon after `stop` is set (guest.aborted). The root and
// what is mounted on can't be removed.
Result<void> remove_file(const guestapi::RemoveFileT& request, const std::atomic<bool>& stop);

}  // namespace space::guest
