// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which process is meant, across restarts of this one: a pid alone may have been given to another process
// since. Errors: node.process_gone, node.process.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "lib/base/result.h"
#include "lib/os/fd.h"

namespace space::node::process {

// A process for as long as the machine runs. Value type.
struct Identity {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  // clock ticks after boot, field 22 of /proc/PID/stat
  std::string boot_id;            // /proc/sys/kernel/random/boot_id
  bool operator==(const Identity&) const = default;
};

// The start time from the content of /proc/PID/stat, whatever the process calls itself. Pure.
Result<std::uint64_t> parse_start_ticks(const std::string& stat);

Result<std::string> boot_id();
// Precondition: `pid` is a child that has not been reaped, or a process that can't end meanwhile.
Result<Identity> identify(pid_t pid);

// A pidfd (readable when the process has ended). Errors: node.process_gone.
Result<os::Fd> open_pid(pid_t pid);
// A pidfd that certainly means this process. Errors: node.process_gone when it has ended or never was on this
// boot.
Result<os::Fd> open_process(const Identity& identity);

// Blocking; false when `deadline` came first.
bool wait_for_exit(int pidfd, std::chrono::steady_clock::time_point deadline);
// Sends a signal; a process that has gone is fine.
void send_signal(int pidfd, int signal);

// How a process ended. `known` is false when it was not our child (an adopted one).
struct Exit {
  bool known = false;
  int exit_code = -1;
  int signal = 0;
};
// Reaps when it is our child. Precondition: the pidfd is readable.
Exit reap(int pidfd);

}  // namespace space::node::process
