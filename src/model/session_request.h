// SPDX-License-Identifier: Apache-2.0
#pragma once
// What may be asked of a new session: bounds, defaults from the template, labels. Pure. Posture:
// tenant-input. Every error is invalid_argument and names its field.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace space::model {

inline constexpr std::uint32_t kMaxVcpus = 64;
inline constexpr std::uint64_t kMinMemoryBytes = 128ULL << 20;
inline constexpr std::uint64_t kMaxDiskBytes = 1ULL << 40;
inline constexpr std::uint64_t kSizeGranule = 1ULL << 20;  // memory and disk come in whole MiB
inline constexpr std::uint64_t kDefaultTtlSeconds = 3600;
inline constexpr std::uint64_t kMaxTtlSeconds = 7 * 24 * 3600;
inline constexpr std::size_t kMaxLabels = 64;

using Labels = std::map<std::string, std::string>;

struct Resources {
  std::uint32_t vcpus = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t disk_bytes = 0;
  bool operator==(const Resources&) const = default;
};

// What a client asked for; absent fields take the template's defaults.
struct SessionRequest {
  std::optional<std::string> name;
  std::string template_name = "base";
  std::optional<std::uint64_t> vcpus;
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::uint64_t> disk_bytes;
  std::uint64_t ttl_seconds = kDefaultTtlSeconds;
  Labels labels;
};

// What a node's machine has at all; zero means not known, and then not checked here (the node checks again).
struct HostSize {
  std::uint32_t cpus = 0;
  std::uint64_t memory_bytes = 0;
};

// 1 to 63 of a-z, 0-9 and inner hyphens. Errors: model.bad_name (field "name").
Result<void> check_name(std::string_view name);
// 1 to 63 of a-z, 0-9, and inner `.`, `_`, `-`. Errors: model.bad_template_name (field `field`).
Result<void> check_template_name(std::string_view name, std::string_view field = "template");
// 1 to kMaxTtlSeconds: a session without an end does not exist. Errors: model.bad_ttl (field "ttl_seconds").
Result<void> check_ttl(std::uint64_t ttl_seconds);
// Errors: model.bad_labels (field "labels").
Result<void> check_labels(const Labels& labels);
// Everything that can be said without knowing the template.
Result<void> check_request(const SessionRequest& request);

// The effective resources. `defaults` come from the template, whose disk is the least a session may have.
// Errors: model.bad_vcpus, model.bad_memory, model.bad_disk.
Result<Resources> resolve_resources(const SessionRequest& request, const Resources& defaults,
                                    const HostSize& host);

}  // namespace space::model
