// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one door of the node: everything that may be asked of it, with typed data and typed errors. Transports
// (service.h, tests) only translate into it. Posture: internal.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/async/task.h"
#include "lib/base/clock.h"
#include "lib/base/id.h"
#include "lib/base/result.h"
#include "node/vmm/machine.h"

namespace space::node {

inline constexpr auto kDefaultCreateLimit = std::chrono::seconds(60);
inline constexpr auto kLongestCreateLimit = std::chrono::minutes(10);

struct CreateSandbox {
  SandboxId sandbox;
  std::string session;
  std::string tenant;
  std::uint64_t generation = 0;
  std::string template_name;
  vmm::Resources resources;
  std::string hostname;
  std::chrono::milliseconds limit = kDefaultCreateLimit;
};

struct SandboxInfo {
  enum class State : std::uint8_t { kStarting, kRunning, kStopping };
  SandboxId sandbox;
  std::string session;
  std::string tenant;
  std::uint64_t generation = 0;
  State state = State::kStarting;
  vmm::Resources resources;
  std::string template_name;
  std::string backend;
  std::string acceleration;
  pid_t vmm_pid = 0;
  WallTime started;
  std::uint64_t kernel_boot_us = 0;
  bool adopted = false;
};

struct DestroyedSandbox {
  bool existed = false;
  std::string console_tail;  // guest bytes as they came
};

struct NodeEvent {
  enum class Kind : std::uint8_t { kRecovered, kSandboxEnded };
  Kind kind = Kind::kSandboxEnded;
  SandboxId sandbox;
  std::string reason;  // node.vmm_exited, node.vmm_killed, node.guest_shutdown, node.guest_panicked
  std::string detail;
  std::string console_tail;
  std::vector<std::string> adopted;
  std::vector<std::string> destroyed;
};

// One watcher's events. Resource type; may outlive the node's work, then next() fails.
class EventFeed {
 public:
  virtual ~EventFeed() = default;
  // The first is kRecovered. Errors: resource_exhausted node.watch_lagging when the reader was too slow: list
  // and watch anew.
  virtual async::Task<Result<NodeEvent>> next() = 0;
};

struct NodeInfo {
  std::string node;
  std::string version;
  std::string backend;
  std::string acceleration;
  std::uint32_t cpus = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_committed_bytes = 0;
  std::uint64_t disk_free_bytes = 0;
  std::uint32_t sandboxes = 0;
};

struct TemplateInfo {
  enum class State : std::uint8_t { kReady, kBuilding, kFailed, kRecipe };
  std::string name;
  State state = State::kRecipe;
  std::string description;
  std::uint64_t disk_bytes = 0;
  std::uint64_t stored_bytes = 0;
  std::uint32_t vcpus = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t built_ms = 0;
  std::string digest;
  std::string reason;
};

struct BuildProgress {
  std::string line;
  std::chrono::milliseconds elapsed{0};
};

class Actions {
 public:
  virtual ~Actions() = default;

  // Ready on success; nothing is left on an error. A second call with the same id waits for the first and
  // answers as it does. The caller going away doesn't stop it. Errors: those of admission.h; template.*;
  // already_exists node.sandbox_differs; deadline_exceeded node.create_deadline; aborted node.destroyed;
  // unavailable node.recovering.
  virtual async::Task<Result<SandboxInfo>> create(CreateSandbox request) = 0;
  // In whatever state it is; one that isn't there is success. Returns when nothing of it is left. With a
  // grace the guest is asked to shut down first. Errors: deadline_exceeded node.destroy_slow (it goes on).
  virtual async::Task<Result<DestroyedSandbox>> destroy(SandboxId sandbox,
                                                        std::chrono::milliseconds grace) = 0;
  [[nodiscard]] virtual std::vector<SandboxInfo> list() const = 0;
  virtual std::unique_ptr<EventFeed> watch() = 0;
  virtual async::Task<Result<NodeInfo>> info() = 0;

  virtual async::Task<Result<std::vector<TemplateInfo>>> list_templates() = 0;
  // Runs until it is built. `progress` is called on the loop. A second call for a template that is being
  // built follows the first. Errors: template.*.
  virtual async::Task<Result<TemplateInfo>> build_template(std::string name,
                                                           std::function<void(BuildProgress)> progress) = 0;
  // Errors: failed_precondition node.template_in_use; template.*.
  virtual async::Task<Result<void>> remove_template(std::string name) = 0;
};

}  // namespace space::node
