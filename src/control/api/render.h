// SPDX-License-Identifier: Apache-2.0
#pragma once
// Answers as JSON text: always valid UTF-8, whatever a guest put into a name. Pure.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/guest_generated.h"
#include "api/node_generated.h"
#include "control/meta/rows.h"
#include "control/node_watcher.h"
#include "lib/base/error.h"

namespace space::control::api {

std::string session_json(const meta::SessionRow& row);
std::string operation_json(const meta::OperationRow& row, const std::vector<meta::StepRow>& steps);
std::string template_json(const nodeapi::TemplateT& row);
std::string node_json(const nodeapi::InfoT& info, bool connected, const std::optional<Recovery>& recovery);
std::string health_json(bool ok, bool node, bool link, std::string_view version);
std::string command_json(const guestapi::CommandInfoT& info);
std::string file_json(const guestapi::FileInfoT& info);
std::string metrics_json(const guestapi::MetricsT& metrics);
// {"items":[...],"next_page_token":...}
std::string list_json(const std::vector<std::string>& items,
                      const std::optional<std::string>& next_page_token);

// What an error is about, beside its field.
struct ErrorSubject {
  std::string session;
  std::string operation;
};
std::string error_json(const Error& error, const ErrorSubject& subject = {});

// Frames of streams.
std::string started_frame(std::string_view command_id, std::uint32_t pid);
std::string attached_frame(const guestapi::AttachedT& attached);
std::string exited_frame(const guestapi::ExitedT& exited);
std::string error_frame(const Error& error);
std::string watch_event_frame(const guestapi::WatchEventT& event);
// {"type":"connected"} and the like.
std::string plain_frame(std::string_view type);

}  // namespace space::control::api
