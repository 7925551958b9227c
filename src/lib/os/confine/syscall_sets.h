// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lists of system calls that several programs of the platform share. Data; each entry says why it is there.

#include <span>

#include "lib/os/confine/syscall_policy.h"

namespace space::os::confine {

// What any C++ program does while it runs: memory (never executable), time, signals, exit, output to open
// descriptors.
extern const std::span<const SyscallRule> kProcessBasics;
// Threads within the process.
extern const std::span<const SyscallRule> kThreads;
// Asio's event loop: epoll, timers, wake-ups.
extern const std::span<const SyscallRule> kEventLoop;
// Sockets that are already there: accepting on a listening one, reading and writing with descriptor passing.
// No new sockets, no names, no connecting.
extern const std::span<const SyscallRule> kOpenSockets;

// Calls that no program of ours makes after its start, and that an attacker would reach for. For
// refuse(..., Refusal::kKillProcess).
extern const std::span<const SyscallRule> kEscapes;

}  // namespace space::os::confine
