// SPDX-License-Identifier: Apache-2.0
#pragma once
// A directory as a raw, sparse ext4 image whose bytes depend on nothing but the tree.

#include <cstdint>
#include <string>

#include "lib/base/result.h"
#include "node/template/tool.h"

namespace space::node::tmpl {

struct DiskImage {
  std::uint64_t bytes = 0;         // apparent
  std::uint64_t stored_bytes = 0;  // allocated
  std::string sha256;
};

// Makes the file `path` of `bytes` (a multiple of 1 MiB) from `root`, whose times were fixed and which holds
// `inodes` inodes. Nothing is left for the guest's kernel to initialise later. Unfinished bytes may stay in
// `path` on error. Errors: as run_tool; resource_exhausted template.disk_too_small when the tree doesn't fit.
Result<DiskImage> make_disk_image(const std::string& root, std::uint64_t inodes, const std::string& path,
                                  std::uint64_t bytes, Reporter& reporter);

}  // namespace space::node::tmpl
