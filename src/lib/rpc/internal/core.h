// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a connection and its calls share. Shared ownership, because a Call may be held by a coroutine that
// ends after its connection: the core stays until the last of them has seen the error.

#include <boost/asio/posix/stream_descriptor.hpp>
#include <deque>
#include <memory>
#include <unordered_map>

#include "lib/async/event.h"
#include "lib/async/task_scope.h"
#include "lib/rpc/call.h"
#include "lib/rpc/connection.h"
#include "lib/wire/mux.h"

namespace space::rpc::internal {

struct Stream {
  Stream(const async::Executor& executor, wire::StreamId number) : id(number), changed(executor) {}
  wire::StreamId id;
  Bytes request;
  std::deque<CallEvent> events;
  std::optional<Error> gone;  // no further events will come, nothing can be sent
  bool over = false;          // End was popped, or this side finished
  async::Event changed;       // events, gone or window
};

struct Core final : wire::MuxHandler, std::enable_shared_from_this<Core> {
  Core(const async::Executor& executor, os::Fd fd, wire::Role role, CallHandler call_handler,
       wire::MuxLimits limits);

  void start();
  // Sends what is pending as far as the socket takes it; the writer task does the rest.
  void flush();
  void close(Error error);
  void queue_fds(std::vector<os::Fd> fds);

  // MuxHandler
  void on_attached(const wire::Marker& marker) override;
  void on_open(wire::StreamId stream, ByteView request) override;
  void on_message(wire::StreamId stream, ByteView message) override;
  void on_data(wire::StreamId stream, std::uint8_t channel, ByteView data) override;
  void on_end(wire::StreamId stream, ByteView status) override;
  void on_reset(wire::StreamId stream) override;
  void on_credit(wire::StreamId stream) override;

  async::Task<void> read_loop();
  async::Task<void> write_loop();
  void drop_stream(wire::StreamId stream, const Error& why);
  Stream* find(wire::StreamId stream);
  // An event was added.
  void queued(Stream& stream);

  async::Executor executor;
  boost::asio::posix::stream_descriptor socket;
  wire::Mux mux;
  CallHandler handler;
  std::unordered_map<wire::StreamId, std::shared_ptr<Stream>> streams;
  std::deque<os::Fd> received_fds;

  // Descriptors to send with the byte at an absolute offset of the output.
  struct OutgoingFds {
    std::uint64_t at;
    std::vector<os::Fd> fds;
  };
  std::deque<OutgoingFds> outgoing_fds;
  std::uint64_t sent = 0;

  std::optional<Error> dead;
  async::Event changed;  // attached or dead
  async::Event want_write;
  bool blocked = false;    // the socket took no more; the writer waits for it
  async::TaskScope scope;  // last: its tasks use the rest
};

}  // namespace space::rpc::internal
