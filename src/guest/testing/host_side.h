// SPDX-License-Identifier: Apache-2.0
#pragma once
// The host's end of the channel for tests: a real wire::Mux over a socket to a real daemon process.

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/guest_generated.h"
#include "lib/os/fd.h"
#include "lib/wire/message.h"
#include "lib/wire/mux.h"

namespace space::guest::testing {

// What has arrived on one call.
struct Received {
  std::vector<std::unique_ptr<guestapi::ReplyT>> messages;
  std::string data[3];
  std::optional<Result<void>> status;  // set once the call has ended
  bool reset = false;
  bool take_data = true;  // false: data is kept, its window isn't given back (a slow reader)
  std::size_t kept_back = 0;

  [[nodiscard]] bool over() const { return status.has_value() || reset; }
  [[nodiscard]] std::string reason() const {
    return !status ? "(none)" : status->ok() ? "ok" : status->error().reason;
  }
  // The first message of that kind, or null.
  template <class Body>
  const Body* message() const {
    for (const auto& reply : messages) {
      guestapi::ReplyT probe;
      probe.body.Set(Body{});
      if (reply->body.type == probe.body.type) return static_cast<const Body*>(reply->body.value);
    }
    return nullptr;
  }
};

class HostSide : public wire::MuxHandler {
 public:
  // Speaks on `socket`; attaches at once with a nonce made of `serial`.
  explicit HostSide(os::Fd socket, unsigned char serial = 1);

  // Moves bytes until `done` or the deadline of three minutes; false at the deadline or when the channel
  // broke.
  bool until(const std::function<bool()>& done);
  [[nodiscard]] bool channel_open() const { return open_; }
  void attach(unsigned char serial);

  wire::StreamId open_bytes(ByteView request);
  template <class Body>
  wire::StreamId open(Body body) {
    return open_bytes(wire::pack_body<guestapi::RequestT>(std::move(body)));
  }
  template <class Body>
  void message(wire::StreamId stream, Body body) {
    mux_.send_message(stream, wire::pack_body<guestapi::ControlT>(std::move(body)))
        .ignore("a test that needs it looks");
    flush();
  }
  // Sends all of `data`, as windows allow, then END unless `keep_open`.
  bool send_all(wire::StreamId stream, std::string_view data);
  void end(wire::StreamId stream);
  void reset(wire::StreamId stream);
  // Gives the window of kept-back data back and takes data as it comes from now on.
  void resume(wire::StreamId stream);
  void write_raw(ByteView bytes);

  Received& operator[](wire::StreamId stream) { return calls_[stream]; }
  // Opens, ends the sending side, waits until it is over.
  template <class Body>
  Received& call(Body body) {
    wire::StreamId stream = open(std::move(body));
    end(stream);
    until([&] { return calls_[stream].over(); });
    return calls_[stream];
  }

  void on_attached(const wire::Marker&) override { ++attachments_; }
  void on_open(wire::StreamId, ByteView) override {}
  void on_message(wire::StreamId stream, ByteView message) override;
  void on_data(wire::StreamId stream, std::uint8_t channel, ByteView data) override;
  void on_end(wire::StreamId stream, ByteView status) override;
  void on_reset(wire::StreamId stream) override { calls_[stream].reset = true; }
  void on_credit(wire::StreamId) override {}

 private:
  void flush();

  os::Fd socket_;
  wire::Mux mux_{wire::Role::kInitiator};
  std::map<wire::StreamId, Received> calls_;
  bool open_ = true;
  int attachments_ = 0;
};

// A daemon as a process on a socket pair (--fd) or with --socket; ended with the object.
class DaemonProcess {
 public:
  DaemonProcess();                                  // --fd
  explicit DaemonProcess(const std::string& path);  // --socket
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  os::Fd take_socket() { return std::move(socket_); }
  [[nodiscard]] pid_t pid() const { return pid_; }
  // Its exit status once it has ended by itself; waits for that.
  int wait();

 private:
  void start(std::vector<std::string> arguments);
  os::Fd socket_;
  pid_t pid_ = -1;
};

// A command line as an Exec with that id.
guestapi::ExecT exec(std::string id, std::vector<std::string> argv);
inline guestapi::ExecT shell(std::string id, std::string script) {
  return exec(std::move(id), {"/bin/sh", "-c", std::move(script)});
}

}  // namespace space::guest::testing
