// SPDX-License-Identifier: Apache-2.0
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "lib/os/unix_socket.h"
#include "lib/rpc/internal/core.h"
#include "lib/wire/message.h"

namespace space::rpc::internal {
namespace asio = boost::asio;
namespace {

constexpr std::size_t kReadBytes = 256u << 10;
constexpr std::size_t kMaxQueuedFds = 64;
// A window admits 4,096 empty messages and as many bytes of data between them. Data in more pieces than that
// is joined (see on_data), so only a peer that wants to fill memory with queue entries gets here.
constexpr std::size_t kMaxQueuedEvents = 8400;
constexpr std::size_t kOrderedEvents = 1024;

Error lost(const std::string& why) {
  return make_error(Code::kUnavailable, "rpc.connection_lost", why);
}

}  // namespace

Core::Core(const async::Executor& loop, os::Fd fd, wire::Role role, CallHandler call_handler,
           wire::MuxLimits limits)
    : executor(loop),
      socket(loop, fd.release()),
      mux(role, limits),
      handler(std::move(call_handler)),
      changed(loop),
      want_write(loop),
      scope(loop) {}

void Core::start() {
  scope.spawn(read_loop());
  scope.spawn(write_loop());
  flush();
}

void Core::flush() {
  while (!dead && !blocked) {
    ByteView out = mux.pending_output();
    if (out.empty()) return;
    std::vector<int> fds;
    if (!outgoing_fds.empty()) {
      if (outgoing_fds.front().at == sent) {
        for (auto& fd : outgoing_fds.front().fds) fds.push_back(fd.get());
      } else {
        out = out.first(std::min<std::size_t>(out.size(), outgoing_fds.front().at - sent));
      }
    }
    auto put = os::send_with_fds(socket.native_handle(), out, fds);
    if (!put.ok()) return close(lost(put.error().message));
    if (*put == 0) {
      blocked = true;
      want_write.notify_all();
      return;
    }
    if (!fds.empty()) outgoing_fds.pop_front();
    sent += *put;
    mux.consumed(*put);
  }
}

void Core::queue_fds(std::vector<os::Fd> fds) {
  outgoing_fds.push_back({sent + mux.pending_output().size(), std::move(fds)});
}

async::Task<void> Core::write_loop() {
  auto self = shared_from_this();
  while (!dead) {
    if (!blocked) {
      co_await want_write.wait();
      continue;
    }
    boost::system::error_code error;
    co_await socket.async_wait(asio::posix::stream_descriptor::wait_write,
                               asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
    blocked = false;
    flush();
  }
}

async::Task<void> Core::read_loop() {
  auto self = shared_from_this();
  Bytes buffer(kReadBytes);
  while (!dead) {
    std::vector<os::Fd> fds;
    auto got = os::receive_with_fds(socket.native_handle(), buffer.data(), buffer.size(), fds);
    if (!got.ok() && got.error().reason == "os.would_block") {
      boost::system::error_code error;
      co_await socket.async_wait(asio::posix::stream_descriptor::wait_read,
                                 asio::redirect_error(asio::use_awaitable, error));
      if (error) {
        close(lost(error.message()));
        co_return;
      }
      continue;
    }
    if (!got.ok() || *got == 0) {
      close(lost(got.ok() ? "the peer closed the connection" : got.error().message));
      co_return;
    }
    for (auto& fd : fds) received_fds.push_back(std::move(fd));
    if (received_fds.size() > (handler ? kMaxQueuedFds : 0)) {
      close(make_error(Code::kDataLoss, "rpc.too_many_descriptors",
                       "the peer sent descriptors that no call takes"));
      co_return;
    }
    auto outcome = mux.receive(ByteView(buffer).first(*got), *this);
    if (!outcome.ok()) {
      close(std::move(outcome).error());
      co_return;
    }
    flush();
    // A peer that always has more to say must not keep the loop from the other connections.
    co_await asio::post(executor, asio::use_awaitable);
  }
}

void Core::close(Error error) {
  if (dead) return;
  dead = std::move(error);
  for (auto& [id, stream] : streams) {
    if (!stream->gone) stream->gone = *dead;
    stream->changed.notify_all();
  }
  streams.clear();
  boost::system::error_code ignored;
  socket.close(ignored);
  changed.notify_all();
  want_write.notify_all();
  if (mux.attached() || handler) scope.cancel_all();
}

void Core::drop_stream(wire::StreamId id, const Error& why) {
  auto it = streams.find(id);
  if (it == streams.end()) return;
  if (!it->second->gone) it->second->gone = why;
  it->second->changed.notify_all();
  streams.erase(it);
}

Stream* Core::find(wire::StreamId id) {
  auto it = streams.find(id);
  return it == streams.end() ? nullptr : it->second.get();
}

void Core::on_attached(const wire::Marker&) {
  while (!streams.empty())
    drop_stream(streams.begin()->first, make_error(Code::kAborted, "rpc.reset", "the peer attached anew"));
  changed.notify_all();
}

void Core::on_open(wire::StreamId id, ByteView request) {
  auto stream = std::make_shared<Stream>(executor, id);
  stream->request = to_bytes(request);
  streams.emplace(id, stream);
  scope.spawn(handler(Call(shared_from_this(), std::move(stream))));
}

void Core::on_message(wire::StreamId id, ByteView message) {
  if (auto* stream = find(id)) {
    stream->events.emplace_back(Message{to_bytes(message)});
    queued(*stream);
  }
}

void Core::on_data(wire::StreamId id, std::uint8_t channel, ByteView data) {
  auto* stream = find(id);
  if (stream == nullptr) return;
  // Data that nobody has asked for yet joins what waits of its channel, so that tiny frames cost no more than
  // large ones. Only a long queue gives up the order between channels for that; the order to messages always
  // stays.
  std::size_t look = stream->events.size() < kOrderedEvents ? 1 : 3;
  for (auto event = stream->events.rbegin(); event != stream->events.rend() && look > 0; ++event, --look) {
    auto* waiting = std::get_if<Data>(&*event);
    if (waiting == nullptr) break;
    if (waiting->channel != channel || waiting->bytes.size() + data.size() > wire::kMaxPayloadBytes) continue;
    waiting->bytes.insert(waiting->bytes.end(), data.begin(), data.end());
    return;
  }
  stream->events.emplace_back(Data{channel, to_bytes(data)});
  queued(*stream);
}

void Core::queued(Stream& stream) {
  stream.changed.notify_all();
  if (stream.events.size() > kMaxQueuedEvents) {
    close(make_error(Code::kDataLoss, "rpc.too_many_events", "the peer chopped its data in too many frames"));
  }
}

void Core::on_end(wire::StreamId id, ByteView status) {
  auto* stream = find(id);
  if (stream == nullptr) return;
  bool asking = !handler;
  stream->events.emplace_back(End{asking ? wire::unpack_status(status) : Result<void>()});
  stream->changed.notify_all();
  // The asking side's stream has left the mux with the peer's END; nothing can be sent on it any more.
  if (asking) streams.erase(id);
}

void Core::on_reset(wire::StreamId id) {
  drop_stream(id, make_error(Code::kAborted, "rpc.reset", "the other side gave the call up"));
}

void Core::on_credit(wire::StreamId id) {
  if (auto* stream = find(id)) stream->changed.notify_all();
}

}  // namespace space::rpc::internal
