// SPDX-License-Identifier: Apache-2.0
#include "node/record.h"

#include <boost/json.hpp>

#include "lib/os/file.h"

namespace space::node {
namespace json = boost::json;
namespace {

constexpr int kFormat = 1;
constexpr std::size_t kMaxRecordBytes = 64 * 1024;
constexpr std::string_view kStates[] = {"creating", "running", "stopping"};

std::string text_of(const json::object& object, std::string_view name) {
  return std::string(object.at(name).as_string());
}

Result<SandboxRecord::State> state_of(std::string_view text) {
  for (std::size_t i = 0; i < std::size(kStates); ++i) {
    if (kStates[i] == text) return static_cast<SandboxRecord::State>(i);
  }
  return make_error(Code::kDataLoss, "node.malformed_record", "unknown state in a record");
}

// Throws what Boost.JSON throws for another shape.
Result<SandboxRecord> record_of(const json::object& object) {
  if (object.at("format").to_number<int>() != kFormat) {
    return make_error(Code::kDataLoss, "node.malformed_record", "a record in a format of another release");
  }
  SandboxRecord record;
  SPACE_TRY(record.sandbox, SandboxId::parse(text_of(object, "sandbox")));
  record.session = text_of(object, "session");
  record.tenant = text_of(object, "tenant");
  record.generation = object.at("generation").to_number<std::uint64_t>();
  record.template_name = text_of(object, "template");
  const auto& resources = object.at("resources").as_object();
  record.resources.vcpus = resources.at("vcpus").to_number<std::uint32_t>();
  record.resources.memory_bytes = resources.at("memory_bytes").to_number<std::uint64_t>();
  record.resources.disk_bytes = resources.at("disk_bytes").to_number<std::uint64_t>();
  record.overhead_bytes = object.at("overhead_bytes").to_number<std::uint64_t>();
  record.backend = text_of(object, "backend");
  record.acceleration = text_of(object, "acceleration");
  record.uid = object.at("uid").to_number<uid_t>();
  SPACE_TRY(record.state, state_of(text_of(object, "state")));
  if (const auto* process = object.at("process").if_object()) {
    record.process = process::Identity{process->at("pid").to_number<pid_t>(),
                                       process->at("start_ticks").to_number<std::uint64_t>(),
                                       text_of(*process, "boot_id")};
  }
  SPACE_TRY(record.started, parse_rfc3339(text_of(object, "started")));
  record.kernel_boot_us = object.at("kernel_boot_us").to_number<std::uint64_t>();
  return record;
}

}  // namespace

std::string to_json(const SandboxRecord& record) {
  json::value process;
  if (record.process) {
    process = {{"pid", record.process->pid},
               {"start_ticks", record.process->start_ticks},
               {"boot_id", record.process->boot_id}};
  }
  return json::serialize(json::object{
             {"format", kFormat},
             {"sandbox", record.sandbox.str()},
             {"session", record.session},
             {"tenant", record.tenant},
             {"generation", record.generation},
             {"template", record.template_name},
             {"resources",
              {{"vcpus", record.resources.vcpus},
               {"memory_bytes", record.resources.memory_bytes},
               {"disk_bytes", record.resources.disk_bytes}}},
             {"overhead_bytes", record.overhead_bytes},
             {"backend", record.backend},
             {"acceleration", record.acceleration},
             {"uid", record.uid},
             {"state", kStates[static_cast<std::size_t>(record.state)]},
             {"process", std::move(process)},
             {"started", to_rfc3339(record.started)},
             {"kernel_boot_us", record.kernel_boot_us},
         }) +
         "\n";
}

Result<SandboxRecord> parse_record(std::string_view text) {
  try {
    return record_of(json::parse({text.data(), text.size()}).as_object());
  } catch (const std::exception& failure) {
    return make_error(Code::kDataLoss, "node.malformed_record",
                      std::string("a record can't be read: ") + failure.what());
  }
}

Result<void> save_record(const std::string& home, const SandboxRecord& record) {
  return os::write_file_atomic(home + "/" + kRecordFile, to_json(record), os::Durability::kBuffered);
}

Result<SandboxRecord> load_record(const std::string& home) {
  SPACE_TRY(std::string text, os::read_file(home + "/" + kRecordFile, kMaxRecordBytes));
  return parse_record(text);
}

}  // namespace space::node
