// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernel modules of the initramfs.

#include <string>

namespace space::guest::boot {

// Loads every file that `directory`/order names, in that order, and deletes it: the initramfs is memory. A
// module that is there already is fine; another failure is logged and the next one tried, since not all are
// needed to boot.
void load_modules(const std::string& directory);

}  // namespace space::guest::boot
