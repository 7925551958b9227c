// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the kernel's command line says to the daemon. Pure.
//
//   space.hostname=NAME   the guest's host name
//   space.init=systemd    the root disk's /sbin/init becomes PID 1, the daemon a process beside it
//   space.root=/dev/vda   the root disk
//   space.tmp=memory      a tmpfs on /tmp instead of the root disk
//   space.trace           times of the boot's stages on the console

#include <cstdint>
#include <string>
#include <string_view>

namespace space::guest::boot {

enum class Init : std::uint8_t { kSpaced, kSystemd };

struct Settings {
  std::string hostname = "sandbox";
  Init init = Init::kSpaced;
  std::string root = "/dev/vda";
  bool tmp_in_memory = false;
  bool trace = false;
};

// Words that aren't ours are skipped; so is a value that can't be meant (a host name that isn't one).
Settings parse_command_line(std::string_view text);

}  // namespace space::guest::boot
