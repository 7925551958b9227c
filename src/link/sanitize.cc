// SPDX-License-Identifier: Apache-2.0
#include "link/sanitize.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "lib/wire/message.h"
#include "lib/wire/mux.h"
#include "link/text.h"

namespace space::link {
namespace {

using flatbuffers::String;

std::string_view view(const String* text) {
  return text == nullptr ? std::string_view() : text->string_view();
}

bool is_bounded_path(std::string_view path, std::size_t max = kMaxPathBytes) {
  return !path.empty() && path.size() <= max && path.find('\0') == std::string_view::npos;
}

// A name in a directory: clients join it to a path of their own machine.
bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

// Is `path` the watched `top` or something below it, without steps back?
bool is_within(std::string_view path, std::string_view top) {
  while (top.ends_with('/')) top.remove_suffix(1);
  if (!path.starts_with(top)) return false;
  path.remove_prefix(top.size());
  if (!path.empty() && path.front() != '/') return false;
  for (std::size_t at = 0; at < path.size();) {
    std::size_t end = std::min(path.find('/', at), path.size());
    if (path.substr(at, end - at) == "..") return false;
    at = end + 1;
  }
  return true;
}

bool is_command_id(std::string_view id) {
  return !id.empty() && id.size() <= kMaxCommandIdBytes && is_printable(id) &&
         id.find_first_of(" /\"\\") == std::string_view::npos;
}

bool are_counts(std::initializer_list<std::uint64_t> values) {
  return std::all_of(values.begin(), values.end(), [](std::uint64_t value) { return value <= kMaxCount; });
}

Result<guestapi::StartedT> clean(const guestapi::Started& from) {
  if (from.pid() == 0 || from.pid() > kMaxPid) return protocol_error("a process id out of range");
  guestapi::StartedT to;
  to.pid = from.pid();
  return to;
}

Result<guestapi::ExitedT> clean(const guestapi::Exited& from) {
  bool by_itself = from.signal() == 0 && from.exit_code() >= 0 && from.exit_code() <= 255;
  bool by_signal = from.signal() > 0 && from.signal() <= kMaxSignal && from.exit_code() == -1;
  if (!by_itself && !by_signal) return protocol_error("an impossible exit code");
  if (!are_counts({from.duration_ms()})) return protocol_error("an impossible duration");
  guestapi::ExitedT to;
  to.exit_code = from.exit_code();
  to.signal = from.signal();
  to.timed_out = from.timed_out();
  to.out_of_memory = from.out_of_memory();
  to.duration_ms = from.duration_ms();
  return to;
}

Result<guestapi::AttachedT> clean(const guestapi::Attached& from) {
  if (from.pid() > kMaxPid) return protocol_error("a process id out of range");
  if (!are_counts({from.stdout_from(), from.stderr_from()})) return protocol_error("an impossible offset");
  guestapi::AttachedT to;
  to.pid = from.pid();
  to.pty = from.pty();
  to.stdout_from = from.stdout_from();
  to.stderr_from = from.stderr_from();
  return to;
}

Result<guestapi::CommandInfoT> clean(const guestapi::CommandInfo& from) {
  if (!is_command_id(view(from.command_id()))) return protocol_error("a malformed command id");
  if (from.pid() > kMaxPid) return protocol_error("a process id out of range");
  if (from.running() == (from.exit() != nullptr))
    return protocol_error("a command that is running and has ended, or neither");
  if (!are_counts({from.stdout_bytes(), from.stderr_bytes()})) return protocol_error("an impossible size");
  guestapi::CommandInfoT to;
  if (from.argv() != nullptr) {
    if (from.argv()->size() > kMaxArguments) return protocol_error("too many arguments");
    std::size_t bytes = 0;
    for (const String* argument : *from.argv()) {
      bytes += view(argument).size();
      if (bytes > kMaxArgumentBytes) return protocol_error("arguments that are too long");
      if (view(argument).find('\0') != std::string_view::npos)
        return protocol_error("an argument with a NUL");
      to.argv.push_back(repair_utf8(view(argument)));
    }
  }
  if (from.exit() != nullptr) {
    SPACE_TRY(auto exit, clean(*from.exit()));
    to.exit = std::make_unique<guestapi::ExitedT>(exit);
  }
  to.command_id = std::string(view(from.command_id()));
  to.pid = from.pid();
  to.running = from.running();
  to.pty = from.pty();
  to.started_ms = std::min<std::uint64_t>(from.started_ms(), kMaxTimeMs);
  to.stdout_bytes = from.stdout_bytes();
  to.stderr_bytes = from.stderr_bytes();
  return to;
}

// `path` is what the result is to be called: for an entry of a directory its checked name.
Result<guestapi::FileInfoT> clean(const guestapi::FileInfo& from, std::string_view path) {
  if (from.kind() > guestapi::FileKind::MAX) return protocol_error("an unknown kind of file");
  if (!are_counts({from.size()})) return protocol_error("an impossible size");
  guestapi::FileInfoT to;
  if (from.target() != nullptr && from.target()->size() != 0) {
    if (from.kind() != guestapi::FileKind::Symlink || !is_bounded_path(view(from.target())))
      return protocol_error("a malformed link target");
    to.target = std::string(view(from.target()));
  }
  to.path = std::string(path);
  to.kind = from.kind();
  to.size = from.size();
  to.mode = from.mode() & 07777U;
  to.uid = from.uid();
  to.gid = from.gid();
  to.modified_ms = std::clamp(from.modified_ms(), kMinTimeMs, kMaxTimeMs);
  return to;
}

Result<guestapi::DirectoryPageT> clean(const guestapi::DirectoryPage& from) {
  guestapi::DirectoryPageT to;
  if (from.entries() == nullptr) return to;
  std::size_t bytes = 0;
  for (const auto* entry : *from.entries()) {
    std::string_view name = view(entry->path());
    if (!is_name(name)) return protocol_error("a directory entry that is no name");
    bytes += name.size() + view(entry->target()).size();
    if (bytes > wire::kMaxMessageBytes)
      return protocol_error("a directory page that names more than it holds");
    SPACE_TRY(auto info, clean(*entry, name));
    to.entries.push_back(std::make_unique<guestapi::FileInfoT>(std::move(info)));
  }
  return to;
}

Result<guestapi::WatchEventT> clean(const guestapi::WatchEvent& from, std::string_view top) {
  if (from.kind() > guestapi::WatchKind::MAX) return protocol_error("an unknown kind of change");
  std::string_view path = view(from.path());
  // An overflow is about no file in particular.
  bool nameless = path.empty() && from.kind() == guestapi::WatchKind::Overflow;
  if (!nameless && (!is_bounded_path(path, kMaxPathBytes + 1 + kMaxNameBytes) || !is_within(path, top)))
    return protocol_error("a change of what is not watched");
  guestapi::WatchEventT to;
  to.kind = from.kind();
  to.path = std::string(path);
  to.directory = from.directory();
  return to;
}

Result<guestapi::HelloReplyT> clean(const guestapi::HelloReply& from) {
  if (!are_counts({from.kernel_boot_us(), from.ready_us()})) return protocol_error("an impossible time");
  guestapi::HelloReplyT to;
  to.protocol = from.protocol();
  to.version = one_line(view(from.version()), kMaxHelloTextBytes);
  to.kernel = one_line(view(from.kernel()), kMaxHelloTextBytes);
  to.boot_id = one_line(view(from.boot_id()), kMaxHelloTextBytes);
  to.kernel_boot_us = from.kernel_boot_us();
  to.ready_us = from.ready_us();
  return to;
}

Result<guestapi::MetricsT> clean(const guestapi::Metrics& from) {
  if (!are_counts({from.uptime_ms(), from.cpu_user_ms(), from.cpu_system_ms(), from.cpu_idle_ms(),
                   from.memory_total(), from.memory_available(), from.disk_total(), from.disk_free()})) {
    return protocol_error("an impossible metric");
  }
  guestapi::MetricsT to;
  to.uptime_ms = from.uptime_ms();
  to.cpu_user_ms = from.cpu_user_ms();
  to.cpu_system_ms = from.cpu_system_ms();
  to.cpu_idle_ms = from.cpu_idle_ms();
  // Not a number, infinite or negative would make JSON that no one can read.
  to.load1 = std::isfinite(from.load1()) ? std::clamp(from.load1(), 0.0F, 1e6F) : 0.0F;
  to.memory_total = from.memory_total();
  to.memory_available = std::min(from.memory_available(), from.memory_total());
  to.disk_total = from.disk_total();
  to.disk_free = std::min(from.disk_free(), from.disk_total());
  to.processes = from.processes();
  return to;
}

template <class Body>
Result<CleanReply> finish(guestapi::ReplyBody kind, Result<Body> body) {
  if (!body.ok()) return std::move(body).error();
  CleanReply reply;
  reply.kind = kind;
  if constexpr (std::is_same_v<Body, guestapi::AttachedT>) reply.pty = body->pty;
  reply.message = wire::pack_body<guestapi::ReplyT>(std::move(*body));
  if (reply.message.size() > wire::kMaxMessageBytes)
    return protocol_error("a message that is too large when it is spelled out");
  return reply;
}

bool is_reason(std::string_view reason) {
  constexpr std::string_view kPrefix = "guest.";
  if (!reason.starts_with(kPrefix)) return false;
  reason.remove_prefix(kPrefix.size());
  return !reason.empty() && reason.size() <= 48 &&
         std::all_of(reason.begin(), reason.end(), [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

bool is_field(std::string_view field) {
  return field.size() <= 48 && std::all_of(field.begin(), field.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '[' ||
                  c == ']';
         });
}

}  // namespace

Error protocol_error(std::string what) {
  return make_error(Code::kDataLoss, "link.protocol_error", "the sandbox's daemon sent " + std::move(what));
}

Result<RequestFacts> examine_request(ByteView bytes) {
  auto malformed = [](const char* what) { return field_error("request", "link.malformed_request", what); };
  Bytes aligned = to_bytes(bytes);
  auto verified = wire::verify<guestapi::Request>(aligned);
  if (!verified.ok()) return malformed("the request for the daemon failed verification");
  const guestapi::Request& request = **verified;
  RequestFacts facts;
  facts.kind = request.body_type();
  switch (facts.kind) {
    case guestapi::RequestBody::Exec:
      facts.pty = request.body_as_Exec()->pty() != nullptr;
      facts.detached = request.body_as_Exec()->detached();
      facts.open_stdin = request.body_as_Exec()->open_stdin();
      if (!is_command_id(view(request.body_as_Exec()->command_id()))) {
        return field_error(
            "command_id", "link.malformed_command_id",
            "a command id has 1 to 128 printable characters, without spaces, quotes and slashes");
      }
      return facts;
    case guestapi::RequestBody::ReadFile:
      facts.path = std::string(view(request.body_as_ReadFile()->path()));
      facts.length = request.body_as_ReadFile()->length();
      break;
    case guestapi::RequestBody::WriteFile:
      facts.path = std::string(view(request.body_as_WriteFile()->path()));
      break;
    case guestapi::RequestBody::WatchFiles:
      facts.path = std::string(view(request.body_as_WatchFiles()->path()));
      break;
    case guestapi::RequestBody::StatFile:
      facts.path = std::string(view(request.body_as_StatFile()->path()));
      break;
    case guestapi::RequestBody::NONE:
      return malformed("the request for the daemon is empty");
    default:
      if (facts.kind > guestapi::RequestBody::MAX)
        return malformed("the request for the daemon is of an unknown kind");
      return facts;
  }
  if (!is_bounded_path(facts.path))
    return field_error("path", "link.malformed_path", "a path has 1 to 4096 bytes and no NUL");
  return facts;
}

Result<guestapi::ControlBody> examine_control(ByteView bytes) {
  Bytes aligned = to_bytes(bytes);
  auto verified = wire::verify<guestapi::Control>(aligned);
  if (!verified.ok() || (*verified)->body_type() == guestapi::ControlBody::NONE ||
      (*verified)->body_type() > guestapi::ControlBody::MAX) {
    return make_error(Code::kInvalidArgument, "link.malformed_message",
                      "a message for the daemon failed verification");
  }
  return (*verified)->body_type();
}

Result<CleanReply> sanitize_reply(ByteView message, const RequestFacts& facts) {
  Bytes aligned = to_bytes(message);
  auto verified = wire::verify<guestapi::Reply>(aligned);
  if (!verified.ok()) return protocol_error("a message that failed verification");
  const guestapi::Reply& reply = **verified;
  switch (auto kind = reply.body_type()) {
    case guestapi::ReplyBody::Started:
      return finish(kind, clean(*reply.body_as_Started()));
    case guestapi::ReplyBody::Exited:
      return finish(kind, clean(*reply.body_as_Exited()));
    case guestapi::ReplyBody::Attached:
      return finish(kind, clean(*reply.body_as_Attached()));
    case guestapi::ReplyBody::CommandInfo:
      return finish(kind, clean(*reply.body_as_CommandInfo()));
    case guestapi::ReplyBody::FileInfo:
      // The path is the one that was asked for, whatever the daemon calls it.
      return finish(kind, clean(*reply.body_as_FileInfo(), facts.path));
    case guestapi::ReplyBody::DirectoryPage:
      return finish(kind, clean(*reply.body_as_DirectoryPage()));
    case guestapi::ReplyBody::Watching:
      return finish(kind, Result<guestapi::WatchingT>(guestapi::WatchingT{}));
    case guestapi::ReplyBody::WatchEvent:
      return finish(kind, clean(*reply.body_as_WatchEvent(), facts.path));
    case guestapi::ReplyBody::Connected:
      return finish(kind, Result<guestapi::ConnectedT>(guestapi::ConnectedT{}));
    case guestapi::ReplyBody::HelloReply:
      return finish(kind, clean(*reply.body_as_HelloReply()));
    case guestapi::ReplyBody::Metrics:
      return finish(kind, clean(*reply.body_as_Metrics()));
    case guestapi::ReplyBody::NONE:
      break;
  }
  return protocol_error("an unknown kind of message");
}

Error sanitize_status(const Error& from_guest) {
  Error error;
  error.code = from_guest.code == Code::kOk ? Code::kInternal : from_guest.code;
  error.reason = is_reason(from_guest.reason) ? from_guest.reason : "guest.invalid_reason";
  error.message = one_line(from_guest.message, kMaxStatusMessageBytes);
  if (is_field(from_guest.field)) error.field = from_guest.field;
  return error;
}

}  // namespace space::link
