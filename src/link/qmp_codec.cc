// SPDX-License-Identifier: Apache-2.0
#include "link/qmp_codec.h"

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "link/text.h"

namespace space::link {
namespace {

namespace json = boost::json;
using linkapi::EventKind;
using linkapi::MachineState;

Error qmp_error(std::string what) {
  return make_error(Code::kDataLoss, "link.qmp_protocol", "the VMM sent " + std::move(what));
}

std::string_view text_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_string()) return {};
  return {value->get_string().data(), value->get_string().size()};
}

const json::object* object_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value == nullptr ? nullptr : value->if_object();
}

Result<std::uint64_t> id_of(const json::object& object) {
  const json::value* id = object.if_contains("id");
  if (id == nullptr) return qmp_error("an answer without a number");
  if (const auto* number = id->if_uint64()) return *number;
  if (const auto* number = id->if_int64(); number != nullptr && *number >= 0)
    return static_cast<std::uint64_t>(*number);
  return qmp_error("an answer with a number that is none");
}

// Run states of QEMU.
MachineState state_of(std::string_view name) {
  constexpr std::pair<std::string_view, MachineState> kStates[] = {
      {"running", MachineState::Running},
      {"paused", MachineState::Paused},
      {"prelaunch", MachineState::Paused},
      {"postmigrate", MachineState::Paused},
      {"finish-migrate", MachineState::Paused},
      {"save-vm", MachineState::Paused},
      {"restore-vm", MachineState::Paused},
      {"suspended", MachineState::Paused},
      {"debug", MachineState::Paused},
      {"inmigrate", MachineState::InMigrate},
      {"shutdown", MachineState::Shutdown},
      {"guest-panicked", MachineState::GuestPanicked},
      {"internal-error", MachineState::InternalError},
      {"io-error", MachineState::InternalError},
      {"watchdog", MachineState::InternalError},
  };
  for (const auto& [known, state] : kStates) {
    if (known == name) return state;
  }
  return MachineState::Unknown;
}

std::string known_word(std::string_view word, std::initializer_list<std::string_view> known) {
  return std::find(known.begin(), known.end(), word) == known.end() ? "other" : std::string(word);
}

QmpMessage event_of(std::string_view name, const json::object& data) {
  if (name == "SHUTDOWN") {
    // By the guest itself; the other causes are ours.
    std::string_view reason = text_of(data, "reason");
    const json::value* by_guest = data.if_contains("guest");
    if (by_guest != nullptr && by_guest->is_bool() && by_guest->get_bool()) {
      return QmpEvent{EventKind::GuestShutdown, known_word(reason, {"guest-shutdown", "guest-reset",
                                                                    "guest-panic", "subsystem-reset"})};
    }
    return QmpNoise{};
  }
  if (name == "GUEST_PANICKED")
    return QmpEvent{EventKind::GuestPanicked,
                    known_word(text_of(data, "action"), {"pause", "poweroff", "run"})};
  if (name == "BLOCK_IO_ERROR") {
    std::string detail = known_word(text_of(data, "operation"), {"read", "write"});
    const json::value* no_space = data.if_contains("nospace");
    if (no_space != nullptr && no_space->is_bool() && no_space->get_bool()) detail += ", no space";
    return QmpEvent{EventKind::BlockIoError, std::move(detail)};
  }
  return QmpNoise{};
}

}  // namespace

Result<QmpMessage> parse_qmp(std::string_view line) {
  if (line.size() > kMaxQmpLineBytes) return qmp_error("a line that is too long");
  json::error_code failed;
  json::parse_options options;
  options.max_depth = kMaxQmpDepth;
  json::value value = json::parse(line, failed, {}, options);
  if (failed) return qmp_error("what is no JSON");
  const json::object* object = value.if_object();
  if (object == nullptr) return qmp_error("JSON that is no object");

  if (object->contains("QMP")) return QmpMessage(QmpGreeting{});
  if (const json::value* answer = object->if_contains("return")) {
    SPACE_TRY(std::uint64_t id, id_of(*object));
    QmpAnswer parsed;
    parsed.id = id;
    if (const json::object* status = answer->if_object()) parsed.state = state_of(text_of(*status, "status"));
    return QmpMessage(std::move(parsed));
  }
  if (const json::object* error = object_of(*object, "error")) {
    SPACE_TRY(std::uint64_t id, id_of(*object));
    QmpAnswer parsed;
    parsed.id = id;
    parsed.error = make_error(Code::kFailedPrecondition, "link.machine_command_failed",
                              "the VMM refused: " + one_line(text_of(*error, "desc"), kMaxQmpTextBytes));
    return QmpMessage(std::move(parsed));
  }
  if (std::string_view name = text_of(*object, "event"); !name.empty()) {
    static const json::object kNone;
    const json::object* data = object_of(*object, "data");
    return event_of(name, data == nullptr ? kNone : *data);
  }
  return qmp_error("a line of an unknown kind");
}

std::string qmp_command(std::string_view name, std::uint64_t id) {
  return "{\"execute\":\"" + std::string(name) + "\",\"id\":" + std::to_string(id) + "}\n";
}

Result<void> QmpLines::append(ByteView bytes) {
  buffer_.erase(0, begin_);
  begin_ = 0;
  std::string_view fresh = as_text(bytes);
  // No line may grow beyond the limit: neither the one that is begun nor one within the new bytes.
  std::size_t length =
      buffer_.size() - (buffer_.rfind('\n') == std::string::npos ? 0 : buffer_.rfind('\n') + 1);
  for (std::size_t at = 0; at < fresh.size();) {
    std::size_t end = fresh.find('\n', at);
    length += (end == std::string_view::npos ? fresh.size() : end) - at;
    if (length > kMaxQmpLineBytes) return qmp_error("a line that is too long");
    if (end == std::string_view::npos) break;
    length = 0;
    at = end + 1;
  }
  buffer_ += fresh;
  return {};
}

std::optional<std::string_view> QmpLines::next() {
  while (begin_ < buffer_.size()) {
    std::size_t end = buffer_.find('\n', begin_);
    if (end == std::string::npos) return {};
    std::string_view line = std::string_view(buffer_).substr(begin_, end - begin_);
    begin_ = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) return line;
  }
  return {};
}

}  // namespace space::link
