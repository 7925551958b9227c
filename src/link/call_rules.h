// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which answers fit a request, and in which order: the conversation of one call with a daemon as a state
// machine.
//
// One instance per call. Everything that comes from the daemon goes through on_message, on_data and on_end,
// in order; what they return may be passed on. An error means that the daemon doesn't keep to guest.fbs: the
// attachment is over. What comes from the client goes through client_data and client_message; an error there
// ends the call only.
//
// Pure. Posture: hostile-guest (and tenant-input for the client's half).

#include "link/sanitize.h"

namespace space::link {

// A list that is longer than this is no answer that anybody can use: ListCommands, ListDirectory.
inline constexpr std::uint64_t kMaxListBytes = 32u << 20;

// How a call went, for the client.
struct Ending {
  Result<void> status;
};

class CallRules {
 public:
  explicit CallRules(RequestFacts facts);

  // The message rebuilt. Errors: link.protocol_error; link.answer_too_large, which is no fault of the
  // protocol.
  Result<Bytes> on_message(ByteView message);
  // Errors: link.protocol_error.
  Result<void> on_data(std::uint8_t channel, std::size_t size);
  // `status` as wire::unpack_status gave it.
  // Errors: link.protocol_error: no or a malformed status, success before the answer was complete.
  Result<Ending> on_end(const Result<void>& status);

  // Errors: link.unexpected_input (invalid_argument).
  Result<void> client_data(std::uint8_t channel) const;
  // Errors: link.unexpected_input, link.malformed_message.
  Result<guestapi::ControlBody> client_message(ByteView message) const;

  // Does the answer come only after the client has sent everything (WriteFile)?
  [[nodiscard]] bool answers_last() const;
  [[nodiscard]] const RequestFacts& facts() const { return facts_; }

 private:
  RequestFacts facts_;
  bool begun_ = false;   // the first message came
  bool closed_ = false;  // the last message came
  std::uint8_t channels_;
  std::uint64_t data_bytes_ = 0;
  std::uint64_t list_bytes_ = 0;
};

}  // namespace space::link
