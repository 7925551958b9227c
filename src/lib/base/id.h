// SPDX-License-Identifier: Apache-2.0
#pragma once
// Named identifier types, so that a session's id can't be passed for a sandbox's.
//
// Identifiers are 20 random characters of [a-z0-9] (103 bits): they fit in a host-name label, and nothing can
// be learned or guessed from them. Value types.

#include <compare>
#include <functional>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace space {

inline constexpr std::size_t kIdLength = 20;

// Is `text` 16 to 40 characters of [a-z0-9]?
bool is_well_formed_id(std::string_view text);

template <class Tag>
class Id {
 public:
  Id() = default;
  // For ids that were validated or generated; see parse() for text from outside.
  explicit Id(std::string text) : text_(std::move(text)) {}

  static Result<Id> parse(std::string_view text) {
    if (!is_well_formed_id(text)) {
      return field_error(Tag::kName, "base.malformed_id",
                         std::string(Tag::kName) + " must be 16 to 40 characters of a-z and 0-9");
    }
    return Id(std::string(text));
  }

  [[nodiscard]] const std::string& str() const { return text_; }
  [[nodiscard]] bool empty() const { return text_.empty(); }
  auto operator<=>(const Id&) const = default;

 private:
  std::string text_;
};

struct SessionTag {
  static constexpr const char* kName = "session";
};
struct SandboxTag {
  static constexpr const char* kName = "sandbox";
};
struct OperationTag {
  static constexpr const char* kName = "operation";
};
struct CommandTag {
  static constexpr const char* kName = "command";
};
struct TenantTag {
  static constexpr const char* kName = "tenant";
};
struct NodeTag {
  static constexpr const char* kName = "node";
};
struct SnapshotTag {
  static constexpr const char* kName = "snapshot";
};
using SessionId = Id<SessionTag>;
using SandboxId = Id<SandboxTag>;
using OperationId = Id<OperationTag>;
using CommandId = Id<CommandTag>;
using TenantId = Id<TenantTag>;
using NodeId = Id<NodeTag>;
using SnapshotId = Id<SnapshotTag>;

// The number of a session's incarnation; the first sandbox of a session has 1.
enum class Generation : std::uint64_t {};

}  // namespace space

template <class Tag>
struct std::hash<space::Id<Tag>> {
  std::size_t operator()(const space::Id<Tag>& id) const noexcept {
    return std::hash<std::string>()(id.str());
  }
};
