// SPDX-License-Identifier: Apache-2.0
#pragma once
// The mounts of a guest. Only as PID 1 of a machine.

#include <string>

#include "guest/boot/settings.h"
#include "lib/base/result.h"

namespace space::guest::boot {

// /proc, /sys and /dev of the initramfs.
Result<void> mount_early();

// Mounts `device` (ext4) and makes it the root: the early mounts move along, the initramfs is left empty. The
// process keeps running from the copy of itself in memory. Errors: guest.no_root_disk.
Result<void> enter_root(const std::string& device);

// What a system expects below its root: terminals, shared memory, /run, /tmp, cgroups, the links of /dev. A
// failure is logged; the guest is usable without most of them.
void mount_rest(const Settings& settings);

}  // namespace space::guest::boot
