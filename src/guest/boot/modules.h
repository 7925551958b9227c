// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernel modules of the initramfs.

#include <string>
#include <string_view>
#include <vector>

#include "lib/os/fd.h"

namespace space::guest::boot {

// One line of the file `order`: a module's file and, after a blank, when to load it.
struct ModuleLine {
  enum class When : unsigned char {
    kNow,     // nothing: the boot needs it
    kDevice,  // device=N: now, if the machine has a virtio device of that type
    kLater,   // later: when the daemon answers already
  };
  std::string file;
  When when = When::kNow;
  unsigned device = 0;
};
// Lines that can't be read are left out. Pure.
std::vector<ModuleLine> parse_order(std::string_view text);

// Loads what `directory`/order says to load now, and deletes all of it: the initramfs is memory. Returns the
// files to be loaded later. A module that is there already is fine; another failure is logged and the next
// one tried, since not all are needed to boot.
std::vector<os::Fd> load_modules(const std::string& directory);
// Blocking.
void load_later_modules(const std::vector<os::Fd>& files);

}  // namespace space::guest::boot
