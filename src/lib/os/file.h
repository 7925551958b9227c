// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whole files and directories, with errors instead of errno. Blocking; paths come from the operator or from
// us, never from a guest. Errors: os.file with the code that fits the errno (see errno_error).

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/base/result.h"
#include "lib/os/fd.h"

namespace space::os {

Result<Fd> open_file(const std::string& path, int flags, mode_t mode = 0600);
// The whole file; more than `max_bytes` is an error (os.file_too_large).
Result<std::string> read_file(const std::string& path, std::size_t max_bytes = 16u << 20);
// All of `data`, whatever write(2) takes at a time.
Result<void> write_all(int fd, ByteView data);

enum class Durability : std::uint8_t { kBuffered, kSynced };
// Replaces `path` by a temporary file beside it and a rename. kSynced: file and directory are on disk on
// return.
Result<void> write_file_atomic(const std::string& path, std::string_view content, Durability durability,
                               mode_t mode = 0600);

Result<void> make_directory(const std::string& path, mode_t mode = 0700);    // existing is fine
Result<void> make_directories(const std::string& path, mode_t mode = 0700);  // with parents
// Removes a file or a whole tree without following links or crossing mounts; absent is fine.
Result<void> remove_tree(const std::string& path);
// Names in a directory, without . and .., sorted.
Result<std::vector<std::string>> list_directory(const std::string& path);
bool exists(const std::string& path);
// Bytes that an unprivileged writer may still use on the file system of `path`.
Result<std::uint64_t> free_bytes(const std::string& path);

}  // namespace space::os
