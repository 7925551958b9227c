// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writing one file: as a whole under a temporary name that replaces the target at the end, or in place.
//
// The temporary file has no name at all where the file system allows it (O_TMPFILE), so that even a machine
// that loses power in the middle of an upload has nothing left over; else it is
// `.<name>.<number>.space-part`. Blocking; resource type: destroying an unfinished writer removes the
// temporary file.

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "api/guest_generated.h"
#include "lib/base/bytes.h"
#include "lib/base/result.h"
#include "lib/os/fd.h"

namespace space::guest {

class FileWriter {
 public:
  FileWriter() = default;
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Checks the target and opens what is written to. A link is followed; an existing file's mode and owner are
  // kept. Errors: guest.not_a_regular_file, guest.malformed_path, guest.no_user, those of file_error().
  Result<void> open(const guestapi::WriteFileT& request);
  Result<void> write(ByteView bytes);
  // Makes the new content durable and visible. Returns what stat says of it.
  Result<guestapi::FileInfoT> commit();

 private:
  Result<void> open_temporary(const std::string& directory, const std::string& name);
  Result<void> give_name();

  std::string shown_;      // as asked
  std::string target_;     // with links followed
  std::string temporary_;  // path of a temporary file that has a name
  bool in_place_ = false;
  os::Fd fd_;
};

// Makes missing parents of `path`, owned by `uid` and `gid`. Errors: those of file_error().
Result<void> make_parents(const std::string& path, uid_t uid, gid_t gid);

}  // namespace space::guest
