// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the node knows of a sandbox across restarts: `record.json` in the sandbox's directory.
//
// Written before anything else of the sandbox exists, and again with the process before it executes anything;
// removed last. So whatever is on the machine has a record, and what has none is rubbish. It survives the
// death of every process but is not synced: after a crash of the machine nothing that it names exists any
// more. Value type.

#include <optional>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/id.h"
#include "lib/base/result.h"
#include "node/process/identity.h"
#include "node/vmm/machine.h"

namespace space::node {

inline constexpr const char* kRecordFile = "record.json";

struct SandboxRecord {
  enum class State : std::uint8_t {
    kCreating,
    kRunning,   // its daemon has answered once
    kStopping,  // to be removed, whatever is left of it
  };
  SandboxId sandbox;
  std::string session;
  std::string tenant;
  std::uint64_t generation = 0;
  std::string template_name;
  vmm::Resources resources;
  std::uint64_t overhead_bytes = 0;
  std::string backend;
  std::string acceleration;
  uid_t uid = 0;
  State state = State::kCreating;
  std::optional<process::Identity> process;
  WallTime started;
  std::uint64_t kernel_boot_us = 0;
};

std::string to_json(const SandboxRecord& record);
// Errors: data_loss node.malformed_record.
Result<SandboxRecord> parse_record(std::string_view text);

// Replaces the old one in one step. Errors: os.file.
Result<void> save_record(const std::string& home, const SandboxRecord& record);
// Errors: not_found os.file; data_loss node.malformed_record.
Result<SandboxRecord> load_record(const std::string& home);

}  // namespace space::node
