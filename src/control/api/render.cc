// SPDX-License-Identifier: Apache-2.0
#include "control/api/render.h"

#include <algorithm>

#include "control/api/internal/json.h"
#include "model/command.h"

namespace space::control::api {
namespace {

// A guest's or node's milliseconds, kept within the years that RFC 3339 can write.
json::value ms_value(std::int64_t ms) {
  constexpr std::int64_t kFirst = -62'135'596'800'000;  // year 1
  constexpr std::int64_t kLast = 253'402'300'799'999;   // year 9999
  return time_value(WallTime(std::chrono::milliseconds(std::clamp(ms, kFirst, kLast))));
}

json::value maybe_ms_value(std::uint64_t ms) {
  constexpr std::uint64_t kLast = 253'402'300'799'999;
  return ms == 0 ? json::value(nullptr) : ms_value(static_cast<std::int64_t>(std::min(ms, kLast)));
}

json::value maybe_text(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(clean(text));
}

json::object resources_object(const model::Resources& resources) {
  return {{"vcpus", resources.vcpus},
          {"memory_bytes", resources.memory_bytes},
          {"disk_bytes", resources.disk_bytes}};
}

json::object error_object(const Error& error, const ErrorSubject& subject = {}) {
  json::object details;
  if (!error.field.empty()) details["field"] = clean(error.field);
  if (!subject.session.empty()) details["session"] = subject.session;
  if (!subject.operation.empty()) details["operation"] = subject.operation;
  return {{"code", json::string(to_string(error.code))},
          {"reason", clean(error.reason)},
          {"message", clean(error.message)},
          {"details", std::move(details)}};
}

json::object exit_object(const guestapi::ExitedT& exited) {
  return {{"exit_code", exited.signal != 0 ? -1 : exited.exit_code},
          {"signal", exited.signal},
          {"timed_out", exited.timed_out},
          {"out_of_memory", exited.out_of_memory},
          {"duration_ms", exited.duration_ms}};
}

std::string_view kind_name(guestapi::FileKind kind) {
  switch (kind) {
    case guestapi::FileKind::Regular:
      return "regular";
    case guestapi::FileKind::Directory:
      return "directory";
    case guestapi::FileKind::Symlink:
      return "symlink";
    case guestapi::FileKind::Fifo:
      return "fifo";
    case guestapi::FileKind::Socket:
      return "socket";
    case guestapi::FileKind::CharDevice:
      return "char_device";
    case guestapi::FileKind::BlockDevice:
      return "block_device";
    case guestapi::FileKind::Unknown:
      break;
  }
  return "unknown";
}

std::string_view kind_name(guestapi::WatchKind kind) {
  switch (kind) {
    case guestapi::WatchKind::Created:
      return "created";
    case guestapi::WatchKind::Modified:
      return "modified";
    case guestapi::WatchKind::Removed:
      return "removed";
    case guestapi::WatchKind::MovedFrom:
      return "moved_from";
    case guestapi::WatchKind::MovedTo:
      return "moved_to";
    case guestapi::WatchKind::Attributes:
      return "attributes";
    case guestapi::WatchKind::Overflow:
      break;
  }
  return "overflow";
}

std::string_view state_name(nodeapi::TemplateState state) {
  switch (state) {
    case nodeapi::TemplateState::Ready:
      return "ready";
    case nodeapi::TemplateState::Building:
      return "building";
    case nodeapi::TemplateState::Recipe:
      return "recipe";
    case nodeapi::TemplateState::Failed:
      break;
  }
  return "failed";
}

json::array names(const std::vector<std::string>& all) {
  json::array out;
  for (const auto& one : all) out.emplace_back(clean(one));
  return out;
}

}  // namespace

std::string session_json(const meta::SessionRow& row) {
  json::object out;
  out["id"] = row.id.str();
  out["name"] = row.name ? json::value(json::string(*row.name)) : json::value(nullptr);
  out["tenant"] = row.tenant.str();
  out["state"] = json::string(model::to_string(row.state));
  out["status"] = nullptr;
  if (row.status)
    out["status"] =
        json::object{{"reason", clean(row.status->reason)}, {"message", clean(row.status->message)}};
  out["template"] = row.template_name;
  out["resources"] = resources_object(row.resources);
  out["ttl_seconds"] = row.ttl_seconds;
  out["created_at"] = time_value(row.created);
  out["started_at"] = maybe_time_value(row.started);
  out["expires_at"] = time_value(row.expires);
  out["ended_at"] = maybe_time_value(row.ended);
  out["generation"] = row.generation;
  out["sandbox"] = nullptr;
  // An ended session has no sandbox any more.
  if (row.facts && model::is_live(row.state)) {
    out["sandbox"] = json::object{{"id", row.sandbox.str()},
                                  {"node", clean(row.facts->node)},
                                  {"backend", clean(row.facts->backend)},
                                  {"acceleration", clean(row.facts->acceleration)},
                                  {"started_at", time_value(row.facts->started)},
                                  {"adopted", row.facts->adopted}};
  }
  json::object labels;
  for (const auto& [key, value] : row.labels) labels[key] = value;
  out["labels"] = std::move(labels);
  out["version"] = row.version;
  return json::serialize(out);
}

std::string operation_json(const meta::OperationRow& row, const std::vector<meta::StepRow>& steps) {
  json::object out;
  out["id"] = row.id.str();
  out["kind"] = json::string(model::to_string(row.kind));
  out["session"] = row.session ? json::value(json::string(row.session->str())) : json::value(nullptr);
  out["template"] = row.template_name ? json::value(json::string(*row.template_name)) : json::value(nullptr);
  out["state"] = json::string(model::to_string(row.state));
  out["created_at"] = time_value(row.created);
  out["deadline_at"] = time_value(row.deadline);
  out["ended_at"] = maybe_time_value(row.ended);
  out["error"] = row.error ? json::value(error_object(*row.error)) : json::value(nullptr);
  json::array journal;
  for (const auto& step : steps) {
    journal.push_back(json::object{
        {"at", time_value(step.at)}, {"step", clean(step.step)}, {"detail", clean(step.detail)}});
  }
  out["steps"] = std::move(journal);
  return json::serialize(out);
}

std::string template_json(const nodeapi::TemplateT& row) {
  json::object out;
  out["id"] = clean(row.name);
  out["name"] = clean(row.name);
  out["state"] = json::string(state_name(row.state));
  out["description"] = clean(row.description);
  out["disk_bytes"] = row.disk_bytes;
  out["stored_bytes"] = row.stored_bytes;
  out["defaults"] = resources_object({row.vcpus, row.memory_bytes, row.disk_bytes});
  out["built_at"] = maybe_ms_value(row.built_ms);
  out["digest"] = maybe_text(row.digest);
  out["status"] = nullptr;
  if (!row.reason.empty())
    out["status"] = json::object{{"reason", "node.template_failed"}, {"message", clean(row.reason)}};
  return json::serialize(out);
}

std::string node_json(const nodeapi::InfoT& info, bool connected, const std::optional<Recovery>& recovery) {
  json::object out;
  out["id"] = clean(info.node);
  out["version"] = clean(info.version);
  out["backend"] = clean(info.backend);
  out["acceleration"] = clean(info.acceleration);
  out["cpus"] = info.cpus;
  out["memory_bytes"] = info.memory_bytes;
  out["memory_committed_bytes"] = info.memory_committed_bytes;
  out["disk_free_bytes"] = info.disk_free_bytes;
  out["sandboxes"] = info.sandboxes;
  out["connected"] = connected;
  out["recovery"] = nullptr;
  if (recovery) {
    out["recovery"] = json::object{{"at", time_value(recovery->at)},
                                   {"adopted", names(recovery->adopted)},
                                   {"destroyed", names(recovery->destroyed)}};
  }
  return json::serialize(out);
}

std::string health_json(bool ok, bool node, bool link, std::string_view version) {
  return json::serialize(
      json::object{{"status", ok ? "ok" : "starting"}, {"node", node}, {"link", link}, {"version", version}});
}

std::string command_json(const guestapi::CommandInfoT& info) {
  json::object out;
  out["id"] = clean(info.command_id);
  out["argv"] = names(info.argv);
  out["pid"] = info.pid;
  out["state"] = info.running ? "running" : "exited";
  out["pty"] = info.pty;
  constexpr std::uint64_t kLast = 253'402'300'799'999;
  out["started_at"] = ms_value(static_cast<std::int64_t>(std::min(info.started_ms, kLast)));
  out["exit"] = info.exit ? json::value(exit_object(*info.exit)) : json::value(nullptr);
  out["stdout_bytes"] = info.stdout_bytes;
  out["stderr_bytes"] = info.stderr_bytes;
  return json::serialize(out);
}

std::string file_json(const guestapi::FileInfoT& info) {
  json::object out;
  out["path"] = clean(info.path);
  out["kind"] = json::string(kind_name(info.kind));
  out["size"] = info.size;
  out["mode"] = model::format_mode(info.mode);
  out["uid"] = info.uid;
  out["gid"] = info.gid;
  out["modified_at"] = ms_value(info.modified_ms);
  if (info.kind == guestapi::FileKind::Symlink) out["target"] = clean(info.target);
  return json::serialize(out);
}

std::string metrics_json(const guestapi::MetricsT& metrics) {
  // JSON knows no infinity, and a guest may send one.
  double load = metrics.load1 >= 0.0F && metrics.load1 < 1e9F ? static_cast<double>(metrics.load1) : 0.0;
  json::object out;
  out["uptime_ms"] = metrics.uptime_ms;
  out["cpu"] = json::object{{"user_ms", metrics.cpu_user_ms},
                            {"system_ms", metrics.cpu_system_ms},
                            {"idle_ms", metrics.cpu_idle_ms}};
  out["load1"] = load;
  out["memory"] =
      json::object{{"total_bytes", metrics.memory_total}, {"available_bytes", metrics.memory_available}};
  out["disk"] = json::object{{"total_bytes", metrics.disk_total}, {"free_bytes", metrics.disk_free}};
  out["processes"] = metrics.processes;
  return json::serialize(out);
}

std::string list_json(const std::vector<std::string>& items,
                      const std::optional<std::string>& next_page_token) {
  std::string out = "{\"items\":[";
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ',';
    out += items[i];
  }
  out += "],\"next_page_token\":";
  out += next_page_token ? json::serialize(json::string(*next_page_token)) : "null";
  return out += '}';
}

std::string error_json(const Error& error, const ErrorSubject& subject) {
  return json::serialize(json::object{{"error", error_object(error, subject)}});
}

std::string started_frame(std::string_view command_id, std::uint32_t pid) {
  return json::serialize(json::object{{"type", "started"}, {"command_id", clean(command_id)}, {"pid", pid}});
}

std::string attached_frame(const guestapi::AttachedT& attached) {
  return json::serialize(json::object{{"type", "attached"},
                                      {"pid", attached.pid},
                                      {"pty", attached.pty},
                                      {"stdout_from", attached.stdout_from},
                                      {"stderr_from", attached.stderr_from}});
}

std::string exited_frame(const guestapi::ExitedT& exited) {
  json::object out{{"type", "exited"}};
  for (auto& field : exit_object(exited)) out[field.key()] = std::move(field.value());
  return json::serialize(out);
}

std::string error_frame(const Error& error) {
  return json::serialize(json::object{{"type", "error"}, {"error", error_object(error)}});
}

std::string watch_event_frame(const guestapi::WatchEventT& event) {
  return json::serialize(json::object{{"type", "event"},
                                      {"kind", json::string(kind_name(event.kind))},
                                      {"path", clean(event.path)},
                                      {"directory", event.directory}});
}

std::string plain_frame(std::string_view type) {
  return json::serialize(json::object{{"type", type}});
}

}  // namespace space::control::api
