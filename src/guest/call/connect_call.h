// SPDX-License-Identifier: Apache-2.0
#pragma once
// Connect: a TCP connection to a port of the guest's own loopback, 127.0.0.1 first, then ::1.
//
// The host's END becomes the end of input for the server. The server's end of output ends the call: the
// channel protocol has no half-close in that direction.

#include <cstdint>

#include "guest/call/call.h"
#include "guest/call/services.h"
#include "guest/command/input_stream.h"
#include "lib/os/fd.h"

namespace space::guest {

class ConnectCall final : public Call {
 public:
  static constexpr std::chrono::seconds kConnectTimeout{10};

  ConnectCall(CallHost& host, wire::StreamId stream, Services& services, std::uint16_t port)
      : Call(host, stream),
        services_(services),
        port_(port),
        to_server_(services.loop, [this](std::size_t bytes) { consumed(bytes); }) {}
  ~ConnectCall() override { close(); }
  void start() override;
  void on_data(std::uint8_t channel, ByteView data) override;
  void on_host_end() override;

 protected:
  bool pump_more() override;
  void on_detached() override { close(); }

 private:
  void try_family(int family);
  void on_connected(int family);
  void next_or_fail(int family, int error);
  void connected();
  void set_reading(bool wanted);
  void on_readable();
  void close();

  Services& services_;
  std::uint16_t port_;
  os::Fd socket_;
  bool watched_ = false;
  bool connected_ = false;
  bool server_ended_ = false;
  bool host_ended_ = false;
  Result<void> outcome_;
  InputStream to_server_;
  Bytes from_server_;  // read, not yet sent: at most one read
  std::size_t sent_ = 0;
  Loop::TimerId timer_ = 0;
};

}  // namespace space::guest
