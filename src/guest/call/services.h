// SPDX-License-Identifier: Apache-2.0
#pragma once
// What calls are answered with. Made by main(); everything outlives every call.

#include <cstdint>
#include <functional>

#include "guest/command/command_table.h"
#include "guest/core/loop.h"
#include "guest/core/worker_pool.h"

namespace space::guest {

enum class PowerAction : std::uint8_t { kOff, kReboot };

struct Services {
  Loop& loop;
  WorkerPool& pool;
  CommandTable& commands;
  std::uint64_t kernel_boot_us = 0;  // CLOCK_MONOTONIC at the daemon's first instruction
  std::uint64_t ready_us = 0;        // and when it could answer
  // Ends the machine (or, as an ordinary process, the daemon). Called after the reply has left.
  std::function<void(PowerAction)> power;
};

}  // namespace space::guest
