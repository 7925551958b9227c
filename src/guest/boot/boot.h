// SPDX-License-Identifier: Apache-2.0
#pragma once
// From the kernel's hand-over to a machine that can run commands.

#include <vector>

#include "guest/boot/settings.h"
#include "lib/base/result.h"
#include "lib/os/fd.h"

namespace space::guest::boot {

struct Booted {
  Settings settings;
  std::vector<os::Fd> later_modules;  // for load_later_modules(), once the daemon answers
};

// As PID 1 in an initramfs. With systemd asked for, it is a child of PID 1 that returns from here, and PID 1
// has become the root disk's /sbin/init. `argv0` is this process's name, which is changed so that systemd
// spares it. Errors: guest.mount, guest.no_root_disk.
Result<Booted> boot(char* argv0);

// Time since the machine started, on the console when `settings` ask for it.
void trace(const Settings& settings, const char* stage);

}  // namespace space::guest::boot
