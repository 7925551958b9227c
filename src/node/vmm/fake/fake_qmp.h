// SPDX-License-Identifier: Apache-2.0
#pragma once
// The few words of QEMU's machine protocol that the platform uses, answered as QEMU would. Pure.

#include <optional>
#include <string>
#include <string_view>

namespace space::node::vmm::fake {

enum class QmpCommand : std::uint8_t { kNone, kStop, kContinue, kQuit, kPowerDown };

struct QmpAnswer {
  std::string text;                        // lines to send
  QmpCommand command = QmpCommand::kNone;  // what the machine has to do now
};

std::string qmp_greeting();
// `line` is one request; `paused` the machine's state.
QmpAnswer answer_qmp(std::string_view line, bool paused);
// An event's line.
std::string qmp_event(std::string_view name);

}  // namespace space::node::vmm::fake
