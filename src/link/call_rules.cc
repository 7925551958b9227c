// SPDX-License-Identifier: Apache-2.0
#include "link/call_rules.h"

#include <array>

namespace space::link {
namespace {

using guestapi::ReplyBody;
using guestapi::RequestBody;

constexpr std::uint8_t kOut = 1 << 1;  // DATA channels as bits
constexpr std::uint8_t kErr = 1 << 2;

struct Grammar {
  ReplyBody first = ReplyBody::NONE;     // must come before anything else
  ReplyBody repeated = ReplyBody::NONE;  // then any number of these,
  ReplyBody last = ReplyBody::NONE;      // and this before a successful END
  std::uint8_t channels = 0;             // DATA between first and last
  bool takes_data = false;               // DATA 0 from the client
  bool takes_control = false;            // Control messages from the client
};

// The comments of guest.fbs as a table.
constexpr Grammar grammar_of(RequestBody kind) {
  switch (kind) {
    case RequestBody::Exec:
      return {ReplyBody::Started, ReplyBody::NONE, ReplyBody::Exited, kOut | kErr, true, true};
    case RequestBody::Attach:
      return {ReplyBody::Attached, ReplyBody::NONE, ReplyBody::Exited, kOut | kErr, true, true};
    case RequestBody::ListCommands:
      return {.repeated = ReplyBody::CommandInfo};
    case RequestBody::ReadFile:
      return {.first = ReplyBody::FileInfo, .channels = kOut};
    case RequestBody::WriteFile:
      return {.first = ReplyBody::FileInfo, .takes_data = true};
    case RequestBody::ListDirectory:
      return {.repeated = ReplyBody::DirectoryPage};
    case RequestBody::StatFile:
      return {.first = ReplyBody::FileInfo};
    case RequestBody::WatchFiles:
      return {.first = ReplyBody::Watching, .repeated = ReplyBody::WatchEvent};
    case RequestBody::Connect:
      return {.first = ReplyBody::Connected, .channels = kOut, .takes_data = true};
    case RequestBody::Hello:
      return {.first = ReplyBody::HelloReply};
    case RequestBody::GetMetrics:
      return {.first = ReplyBody::Metrics};
    case RequestBody::SignalCommand:
    case RequestBody::MoveFile:
    case RequestBody::RemoveFile:
    case RequestBody::MakeDirectory:
    case RequestBody::Shutdown:
    case RequestBody::NONE:
      return {};
  }
  return {};
}

Error unexpected_input(const char* what) {
  return make_error(Code::kInvalidArgument, "link.unexpected_input", what);
}

}  // namespace

CallRules::CallRules(RequestFacts facts)
    : facts_(std::move(facts)), channels_(grammar_of(facts_.kind).channels) {
  if (facts_.pty) channels_ = kOut;  // a terminal has one output
}

Result<Bytes> CallRules::on_message(ByteView message) {
  SPACE_TRY(CleanReply reply, sanitize_reply(message, facts_));
  const Grammar grammar = grammar_of(facts_.kind);
  if (closed_) return protocol_error("a message after the last one of the call");
  if (!begun_ && grammar.first != ReplyBody::NONE) {
    if (reply.kind != grammar.first) return protocol_error("an answer that does not fit the request");
    begun_ = true;
    if (reply.kind == ReplyBody::Attached && reply.pty) channels_ = kOut;
    return std::move(reply.message);
  }
  if (reply.kind == grammar.last && !facts_.detached) {
    closed_ = true;
    return std::move(reply.message);
  }
  if (reply.kind != grammar.repeated) return protocol_error("an answer that does not fit the request");
  if (facts_.kind != RequestBody::WatchFiles) list_bytes_ += reply.message.size();
  if (list_bytes_ > kMaxListBytes) {
    return make_error(Code::kResourceExhausted, "link.answer_too_large",
                      "the list is longer than 32 MiB; ask for a part of it");
  }
  return std::move(reply.message);
}

Result<void> CallRules::on_data(std::uint8_t channel, std::size_t size) {
  if (channel > 7 || (channels_ & (1U << channel)) == 0)
    return protocol_error("data on a channel that the call does not have");
  if (!begun_ || closed_ || facts_.detached) return protocol_error("data outside of the answer");
  data_bytes_ += size;
  if (facts_.length != 0 && data_bytes_ > facts_.length)
    return protocol_error("more data than was asked for");
  return {};
}

Result<Ending> CallRules::on_end(const Result<void>& status) {
  if (!status.ok()) {
    const std::string& reason = status.error().reason;
    if (reason == "wire.no_status" || reason == "wire.malformed_message")
      return protocol_error("the end of a call without a status");
    return Ending{sanitize_status(status.error())};
  }
  const Grammar grammar = grammar_of(facts_.kind);
  // A watch that the client ends is over at whatever point it was.
  if (facts_.kind == RequestBody::WatchFiles) return Ending{};
  bool complete = (grammar.first == ReplyBody::NONE || begun_) &&
                  (grammar.last == ReplyBody::NONE || closed_ || facts_.detached);
  if (!complete) return protocol_error("success before the answer was complete");
  return Ending{};
}

Result<void> CallRules::client_data(std::uint8_t channel) const {
  bool takes = grammar_of(facts_.kind).takes_data && (facts_.kind != RequestBody::Exec || facts_.open_stdin);
  if (!takes) return unexpected_input("this call takes no data");
  if (channel != 0) return unexpected_input("data for the daemon goes on channel 0");
  return {};
}

Result<guestapi::ControlBody> CallRules::client_message(ByteView message) const {
  if (!grammar_of(facts_.kind).takes_control) return unexpected_input("this call takes no messages");
  return examine_control(message);
}

bool CallRules::answers_last() const {
  return facts_.kind == RequestBody::WriteFile;
}

}  // namespace space::link
