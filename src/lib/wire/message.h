// SPDX-License-Identifier: Apache-2.0
#pragma once
// FlatBuffers in and out of frames. Everything received is verified before a field is read; tables and depth
// are bounded. Pure.

#include <flatbuffers/flatbuffers.h>

#include <memory>
#include <utility>

#include "api/status_generated.h"
#include "lib/base/bytes.h"
#include "lib/base/result.h"

namespace space::wire {

inline constexpr flatbuffers::uoffset_t kMaxTables = 20'000;
inline constexpr flatbuffers::uoffset_t kMaxDepth = 16;

inline Bytes finished(const flatbuffers::FlatBufferBuilder& builder) {
  const auto* begin = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());  // SAFETY: bytes alias
  return {begin, begin + builder.GetSize()};
}

// Any object-API value as a message.
template <class Native>
Bytes pack(const Native& value) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Native::TableType::Pack(builder, &value));
  return finished(builder);
}

// pack_body<guestapi::RequestT>(std::move(exec)): a Request (Reply, Control, ...) whose union `body` holds
// `body`.
template <class EnvelopeT, class BodyT>
Bytes pack_body(BodyT body) {
  EnvelopeT envelope;
  envelope.body.Set(std::move(body));
  return pack(envelope);
}

// The table in `bytes` after verification; it points into `bytes`. Errors: wire.malformed_message.
template <class Table>
Result<const Table*> verify(ByteView bytes) {
  auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());  // SAFETY: bytes alias
  flatbuffers::Verifier verifier(data, bytes.size(), kMaxDepth, kMaxTables);
  if (bytes.size() < 8 || !verifier.VerifyBuffer<Table>(nullptr)) {
    return make_error(Code::kDataLoss, "wire.malformed_message", "a message failed verification");
  }
  return flatbuffers::GetRoot<Table>(data);
}

// Verified and copied out. `Native` is an object-API type.
template <class Native>
Result<Native> unpack(ByteView bytes) {
  // FlatBuffers wants alignment; frames give none. The copy lives only here.
  Bytes aligned(bytes.begin(), bytes.end());
  SPACE_TRY(const auto* table, verify<typename Native::TableType>(aligned));
  Native native;
  table->UnPackTo(&native);
  return native;
}

// The body of an envelope as one particular kind: unpack_body<guestapi::ReplyT, guestapi::StartedT>(bytes).
// Errors: wire.malformed_message; wire.unexpected_message when it holds another kind.
template <class EnvelopeT, class BodyT>
Result<BodyT> unpack_body(ByteView bytes) {
  SPACE_TRY(EnvelopeT envelope, unpack<EnvelopeT>(bytes));
  using Kind = decltype(envelope.body.type);
  EnvelopeT probe;
  probe.body.Set(BodyT{});
  if (envelope.body.type != probe.body.type || envelope.body.type == Kind::NONE) {
    return make_error(Code::kDataLoss, "wire.unexpected_message", "the peer sent another kind of message");
  }
  return std::move(*static_cast<BodyT*>(envelope.body.value));  // SAFETY: the tag was just compared
}

// Status of a call <-> the payload of an END frame.
inline Bytes pack_status(const Result<void>& outcome) {
  fb::StatusT status;
  if (!outcome.ok()) {
    status.code = static_cast<std::uint8_t>(outcome.error().code);
    status.reason = outcome.error().reason;
    status.message = outcome.error().message.substr(0, 4096);
    status.field = outcome.error().field;
  }
  return pack(status);
}

// Errors: the error that the peer sent; wire.malformed_message; wire.no_status for an END without one.
inline Result<void> unpack_status(ByteView payload) {
  if (payload.empty())
    return make_error(Code::kDataLoss, "wire.no_status", "the call ended without a status");
  SPACE_TRY(auto status, unpack<fb::StatusT>(payload));
  if (status.code == 0) return {};
  Code code = status.code <= kMaxCode ? static_cast<Code>(status.code) : Code::kInternal;
  return Error{code, std::move(status.reason), std::move(status.message), std::move(status.field)};
}

}  // namespace space::wire
