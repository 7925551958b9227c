// SPDX-License-Identifier: Apache-2.0
#include "node/vmm/fake/fake_qmp.h"

#include <boost/json.hpp>

namespace space::node::vmm::fake {
namespace json = boost::json;
namespace {

std::string line_of(const json::object& object) {
  return json::serialize(object) + "\r\n";
}

json::object failure(const char* description) {
  return {{"error", {{"class", "CommandNotFound"}, {"desc", description}}}};
}

}  // namespace

std::string qmp_greeting() {
  return line_of({{"QMP",
                   {{"version", {{"qemu", {{"major", 7}, {"minor", 2}, {"micro", 0}}}, {"package", "fake"}}},
                    {"capabilities", json::array()}}}});
}

std::string qmp_event(std::string_view name) {
  return line_of({{"timestamp", {{"seconds", 0}, {"microseconds", 0}}}, {"event", name}});
}

QmpAnswer answer_qmp(std::string_view line, bool paused) {
  boost::system::error_code failed;
  json::value request = json::parse({line.data(), line.size()}, failed);
  if (failed || !request.is_object() || !request.get_object().contains("execute"))
    return {line_of(failure("no command")), QmpCommand::kNone};
  const auto& object = request.get_object();
  const auto* name = object.at("execute").if_string();
  std::string_view command = name == nullptr ? std::string_view() : std::string_view(*name);
  QmpAnswer answer;
  json::object reply{{"return", json::object()}};
  std::string event;
  if (command == "stop") {
    answer.command = QmpCommand::kStop;
    event = qmp_event("STOP");
  } else if (command == "cont") {
    answer.command = QmpCommand::kContinue;
    event = qmp_event("RESUME");
  } else if (command == "quit") {
    answer.command = QmpCommand::kQuit;
  } else if (command == "system_powerdown") {
    answer.command = QmpCommand::kPowerDown;
    event = qmp_event("POWERDOWN");
  } else if (command == "query-status") {
    reply["return"] = {
        {"running", !paused}, {"singlestep", false}, {"status", paused ? "paused" : "running"}};
  } else if (command != "qmp_capabilities") {
    reply = failure("the fake machine doesn't know this command");
  }
  if (const auto* id = object.if_contains("id")) reply["id"] = *id;
  answer.text = event + line_of(reply);
  return answer;
}

}  // namespace space::node::vmm::fake
