// SPDX-License-Identifier: Apache-2.0
// Bytes from a hostile peer into both ends of the multiplexer. The first byte chooses the role and how the
// input is cut; an initiator that has been attached gets the echo for free, so that the fuzzer reaches the
// frames behind it.
#include <cstdlib>

#include "lib/wire/mux.h"

namespace {

using namespace space;
using namespace space::wire;

struct Sink : MuxHandler {
  Mux* mux = nullptr;
  std::size_t seen = 0;
  void on_attached(const Marker&) override {}
  void on_open(StreamId s, ByteView r) override {
    seen += r.size();
    mux->send_data(s, 1, r);
    if (r.size() % 2 == 0) mux->end(s, r);
  }
  void on_message(StreamId s, ByteView m) override { mux->grant_message(s, m.size()); }
  void on_data(StreamId s, std::uint8_t, ByteView d) override {
    if (d.empty() || d.size() > kMaxPayloadBytes) std::abort();
    mux->grant(s, d.size());
  }
  void on_end(StreamId, ByteView) override {}
  void on_reset(StreamId) override {}
  void on_credit(StreamId s) override {
    if (mux->writable(s) > kWindowBytes) std::abort();
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  Role role = (data[0] & 1) != 0 ? Role::kInitiator : Role::kAcceptor;
  std::size_t piece = data[1] == 0 ? size : data[1];
  ByteView input(reinterpret_cast<const std::byte*>(data) + 2, size - 2);  // SAFETY: bytes alias
  Mux mux(role, {.max_streams = 8, .max_discard_bytes = 4096});
  Sink sink;
  sink.mux = &mux;
  Nonce nonce;
  nonce.fill(std::byte{'n'});
  std::byte marker[kMarkerBytes];
  encode_marker(role == Role::kInitiator ? kEchoMagic : kMarkerMagic, Marker{nonce, 1, kProtocolVersion},
                marker);
  if (role == Role::kInitiator) {
    mux.attach(nonce, 1);
    for (int i = 0; i < 3; ++i) mux.open(as_bytes("request")).ignore("not attached yet");
  }
  if ((data[0] & 2) != 0) mux.receive(ByteView(marker), sink).ignore("well formed");
  if (role == Role::kInitiator) {
    for (int i = 0; i < 3; ++i) mux.open(as_bytes("request")).ignore("may be detached");
  }
  while (!input.empty()) {
    auto part = input.first(std::min(piece, input.size()));
    mux.receive(part, sink).ignore("hostile input");
    input = input.subspan(part.size());
    mux.consumed(mux.pending_output().size() / 2);
  }
  if (mux.stream_count() > 8) std::abort();
  return 0;
}
