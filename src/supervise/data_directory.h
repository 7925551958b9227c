// SPDX-License-Identifier: Apache-2.0
#pragma once
// The data directory: who holds it, what is in it, whose it is (ARCHITECTURE.md, "Where state lives").
//
// Only the root of it needs to be reachable for root; other users' processes get descriptors. Errors:
// os.file, supervise.in_use, supervise.no_space, supervise.damaged.

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "lib/base/result.h"
#include "lib/os/fd.h"
#include "lib/os/random.h"

namespace space::supervise {

// User ids of one node, counted from its base.
struct UserIds {
  std::uint32_t base = 0;
  [[nodiscard]] uid_t control() const { return base + 1; }
  [[nodiscard]] uid_t link() const { return base + 2; }
};
inline constexpr std::uint32_t kUidsPerNode = 16384;

// 2^30 + (hash of the id mod 4096) * 16384, unless `wanted` isn't 0. Errors: supervise.usage for a base that
// overlaps the system's users or leaves the range of user ids.
Result<UserIds> user_ids(const std::string& node_id, std::uint64_t wanted);

// The exclusive right to a data directory, for as long as the process lives. Resource type.
class DataLock {
 public:
  // Waits up to `patience` for a holder that is about to end. Errors: supervise.in_use, naming the holder's
  // pid.
  static Result<DataLock> take(const std::string& path, int patience_ms);

 private:
  explicit DataLock(os::Fd fd) : fd_(std::move(fd)) {}
  os::Fd fd_;
};

// Paths below one data directory. Value type.
struct DataDirectory {
  std::string root;  // absolute

  [[nodiscard]] std::string in(const std::string& name) const { return root + "/" + name; }
};

// Makes `path` (0700) if need be and returns it absolute, with links resolved. Errors: also when less than
// `min_free` bytes are free.
Result<DataDirectory> open_data_directory(const std::string& path, std::uint64_t min_free);

// The node's id, made at the first start.
Result<std::string> node_id(const DataDirectory& data, os::Random& random);
// The first API key, made at the first start: "space_" and 43 characters of base64url.
Result<std::string> admin_key(const DataDirectory& data, os::Random& random);
std::string sha256_hex(const std::string& text);

// Directories with their owners and modes.
Result<void> make_layout(const DataDirectory& data, const UserIds& users);

}  // namespace space::supervise
