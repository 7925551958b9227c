// SPDX-License-Identifier: Apache-2.0
#pragma once
// The daemon's end of the channel: bytes in and out, the multiplexer, and a Call for every stream.
//
// The channel is a virtio port (which stays open for ever; the host side comes and goes) or a connected
// socket. When the host goes or attaches anew, every call is detached; commands live on in the CommandTable.
// Output is kept below kOutputHigh, so that a slow host costs nothing; calls take turns. Resource type; for
// the loop's thread.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "guest/call/call.h"
#include "guest/call/services.h"
#include "lib/os/fd.h"
#include "lib/wire/mux.h"

namespace space::guest {

enum class ChannelKind : std::uint8_t {
  kPort,    // a read of 0 bytes means that nobody is connected at the moment
  kSocket,  // a read of 0 bytes means that it is over
};

class Server final : public wire::MuxHandler, public CallHost {
 public:
  static constexpr std::size_t kOutputHigh = 256u << 10;

  explicit Server(Services& services) : services_(services) {}
  ~Server() override { close(); }

  // Serves on `channel`, non-blocking, until it is over; then calls `closed` (sockets only). Precondition: no
  // channel.
  void open(os::Fd channel, ChannelKind kind, std::function<void()> closed);
  // Detaches all calls and closes the channel.
  void close();
  // Calls `done` when everything that is queued has been written, or after `limit`.
  void when_written(std::chrono::milliseconds limit, std::function<void()> done);

  // MuxHandler
  void on_attached(const wire::Marker& marker) override;
  void on_open(wire::StreamId stream, ByteView request) override;
  void on_message(wire::StreamId stream, ByteView message) override;
  void on_data(wire::StreamId stream, std::uint8_t channel, ByteView data) override;
  void on_end(wire::StreamId stream, ByteView status) override;
  void on_reset(wire::StreamId stream) override;
  void on_credit(wire::StreamId stream) override { want_pump(stream); }

  // CallHost
  wire::Mux& mux() override { return *mux_; }
  [[nodiscard]] std::size_t output_room() const override;
  void output_added() override { plan_round(); }
  void want_pump(wire::StreamId stream) override;
  void closed(wire::StreamId stream) override;

 private:
  void on_channel(std::uint32_t events);
  void read_some();
  void expect_host();
  void write_some();
  void pump_calls();
  void plan_round();
  void detach_calls();
  std::shared_ptr<Call> find(wire::StreamId stream) const;

  Services& services_;
  os::Fd channel_;
  ChannelKind kind_ = ChannelKind::kSocket;
  std::function<void()> on_closed_;
  std::optional<wire::Mux> mux_;
  std::unordered_map<wire::StreamId, std::shared_ptr<Call>> calls_;
  std::deque<wire::StreamId> ready_;
  std::unordered_set<wire::StreamId> queued_;
  bool round_planned_ = false;
  bool more_to_read_ = false;
  bool host_expected_ = false;
  std::function<void()> written_;
};

}  // namespace space::guest
