// SPDX-License-Identifier: Apache-2.0
#pragma once
// The machine protocol of a VMM (QMP): lines of JSON in, commands out. Pure. Posture: hostile-guest: a guest
// that has taken over its VMM writes here what it likes.
//
// Nothing of the VMM's text survives but what the types below can say: an answer's number, a known state, a
// known event, an escaped and cut sentence. Errors: link.qmp_protocol.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "api/link_generated.h"
#include "lib/base/bytes.h"
#include "lib/base/result.h"

namespace space::link {

inline constexpr std::size_t kMaxQmpLineBytes = 64 * 1024;
inline constexpr std::size_t kMaxQmpDepth = 16;
inline constexpr std::size_t kMaxQmpTextBytes = 200;

struct QmpGreeting {};
struct QmpAnswer {
  std::uint64_t id = 0;
  std::optional<Error> error;                                    // link.machine_command_failed
  linkapi::MachineState state = linkapi::MachineState::Unknown;  // of query-status
};
struct QmpEvent {
  linkapi::EventKind kind{};
  std::string detail;  // from a fixed set of words
};
// An event that nobody here cares about, or one that our own commands cause.
struct QmpNoise {};
using QmpMessage = std::variant<QmpGreeting, QmpAnswer, QmpEvent, QmpNoise>;

// One line without its end.
Result<QmpMessage> parse_qmp(std::string_view line);

// A command without arguments, with line end. Precondition: `name` is one of ours.
std::string qmp_command(std::string_view name, std::uint64_t id);

// Cuts a stream in lines. Holds at most kMaxQmpLineBytes.
class QmpLines {
 public:
  // Errors: a line that is too long.
  Result<void> append(ByteView bytes);
  // The next complete line, without line end; empty lines are left out. The view is good until the next call.
  std::optional<std::string_view> next();

 private:
  std::string buffer_;
  std::size_t begin_ = 0;
};

}  // namespace space::link
