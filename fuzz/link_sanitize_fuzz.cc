// SPDX-License-Identifier: Apache-2.0
// A daemon's side of one call into the rules. Input: a byte for the kind of the request, a byte of its facts,
// then events: a byte for what it is (message, data, end), two bytes of length, the bytes. Whatever is passed
// on must itself pass the same checks unchanged, and hold to the bounds that the rules promise.
#include <algorithm>
#include <cstdlib>

#include "lib/wire/message.h"
#include "lib/wire/mux.h"
#include "link/call_rules.h"
#include "link/text.h"

namespace {

using namespace space;
using namespace space::link;

void check_passed_on(const Bytes& message, const RequestFacts& facts) {
  if (message.size() > wire::kMaxMessageBytes) std::abort();
  auto again = sanitize_reply(message, facts);
  if (!again.ok()) std::abort();
  // Escaped text is escaped once more; everything else stays.
  if (again->kind != guestapi::ReplyBody::HelloReply && again->message != message) std::abort();
  auto reply = wire::unpack<guestapi::ReplyT>(message);
  if (!reply.ok()) std::abort();
  if (const auto* page = reply->body.AsDirectoryPage()) {
    for (const auto& entry : page->entries) {
      if (entry->path.find('/') != std::string::npos || entry->path == "..") std::abort();
    }
  }
}

void check_status(const Error& error) {
  if (!error.reason.starts_with("guest.") || error.reason.size() > 54) std::abort();
  if (error.message.size() > kMaxStatusMessageBytes || !is_printable(error.message)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  ByteView input(reinterpret_cast<const std::byte*>(data), size);  // SAFETY: bytes alias
  // The client's half takes the same bytes.
  examine_request(input).ignore("must only not crash");
  examine_control(input).ignore("must only not crash");
  RequestFacts facts;
  facts.kind = static_cast<guestapi::RequestBody>(data[0] % 17);
  facts.path = (data[1] & 8) != 0 ? "/" : "/watched/";
  facts.pty = (data[1] & 1) != 0;
  facts.detached = (data[1] & 2) != 0;
  facts.length = (data[1] & 4) != 0 ? 1000 : 0;
  CallRules rules(facts);
  bool begun = false;
  for (input = input.subspan(2); input.size() >= 3;) {
    auto what = static_cast<std::uint8_t>(input[0]);
    std::size_t length = std::min<std::size_t>(load_le<std::uint16_t>(input.data() + 1), input.size() - 3);
    ByteView payload = input.subspan(3, length);
    input = input.subspan(3 + length);
    if (what % 3 == 0) {
      auto clean = rules.on_message(payload);
      if (!clean.ok()) return 0;
      check_passed_on(*clean, facts);
      begun = true;
    } else if (what % 3 == 1) {
      if (!rules.on_data(what / 3, length).ok()) return 0;
      if (!begun) std::abort();  // data never comes before an answer
    } else {
      auto end = rules.on_end(wire::unpack_status(payload));
      if (end.ok() && !end->status.ok()) check_status(end->status.error());
      return 0;
    }
  }
  return 0;
}
