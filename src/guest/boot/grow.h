// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes the root file system as large as its disk: a session may ask for more than the template has.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace space::guest::boot {

struct Ext4Size {
  std::uint64_t blocks;
  std::uint32_t block_bytes;
};
// From the 1024 bytes of a superblock; nothing if it isn't one. Pure.
std::optional<Ext4Size> parse_superblock(std::string_view bytes);

// Grows the ext4 mounted at `root` to the size of `device`, when at least kWorthwhileBytes are missing.
// True when it grew. Errors: guest.grow.
inline constexpr std::uint64_t kWorthwhileBytes = 8u << 20;
Result<bool> grow_root(const std::string& device, const std::string& root);

}  // namespace space::guest::boot
