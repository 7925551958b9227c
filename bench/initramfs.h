// SPDX-License-Identifier: Apache-2.0
#pragma once
// A variant of a template's initramfs with another program as /init: the kernel unpacks concatenated archives
// in order and lets a later file replace an earlier one.

#include <string>

#include "lib/base/result.h"

namespace space::bench {

// Writes `base` followed by an archive that holds the program `init` as /init. Errors: os.file.
Result<void> write_initramfs_with_init(const std::string& base, const std::string& init,
                                       const std::string& out);

}  // namespace space::bench
