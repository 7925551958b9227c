// SPDX-License-Identifier: Apache-2.0
#pragma once
// The machine around the daemon: its name, its loopback, the port of the channel, its end. Only as PID 1 (or
// beside it).

#include <string>

#include "guest/boot/settings.h"
#include "guest/call/services.h"
#include "lib/base/result.h"
#include "lib/os/fd.h"

namespace space::guest::boot {

void set_hostname(const std::string& name);
void bring_up_loopback();

// The virtio port with that name, non-blocking; waits until it exists. Errors: guest.no_channel after a
// minute.
Result<os::Fd> open_port(const std::string& name);

// Locks memory, takes real-time priority and is spared by the kernel when memory runs out. Children get none
// of it. Failures are logged.
void protect_daemon();

// Ends every process, writes everything to disk and resets the machine, which is how a machine without ACPI
// leaves its VMM (started with -no-reboot and the kernel with reboot=t). With systemd, systemd is asked to do
// so and this returns.
void end_machine(const Settings& settings, PowerAction action);

}  // namespace space::guest::boot
