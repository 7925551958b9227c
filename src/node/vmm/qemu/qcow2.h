// SPDX-License-Identifier: Apache-2.0
#pragma once
// An empty copy-on-write layer over a raw disk, in QEMU's qcow2 format (version 3), written
// without QEMU: a few clusters, no process to start and no package to install. Pure.

#include <cstdint>
#include <string>

#include "lib/base/bytes.h"
#include "lib/base/result.h"

namespace space::node::vmm::qemu {

inline constexpr std::uint64_t kClusterBytes = 65536;
inline constexpr std::uint64_t kMaxOverlayBytes = std::uint64_t{1}
                                                  << 43;  // 8 TiB: one cluster of references suffices

// The file's content. `disk_bytes` is what the guest sees, a multiple of 512; `backing` is the raw disk's
// path as the VMM sees it. Errors: invalid_argument node.disk_size.
Result<Bytes> overlay_image(std::uint64_t disk_bytes, const std::string& backing);
// The most that the file of such a layer may grow to: all data and its metadata.
std::uint64_t overlay_limit_bytes(std::uint64_t disk_bytes);

}  // namespace space::node::vmm::qemu
