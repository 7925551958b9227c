// SPDX-License-Identifier: Apache-2.0
#include "guest/testing/host_side.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <chrono>

#include "lib/os/unix_socket.h"

namespace space::guest::testing {
namespace {
constexpr std::chrono::minutes kDeadline{3};  // a machine that is emulated on a busy host boots slowly
}

HostSide::HostSide(os::Fd socket, unsigned char serial) : socket_(std::move(socket)) {
  ::fcntl(socket_.get(), F_SETFL, O_NONBLOCK);
  attach(serial);
}

void HostSide::attach(unsigned char serial) {
  wire::Nonce nonce;
  nonce.fill(std::byte{serial});
  calls_.clear();
  int before = attachments_;
  mux_.attach(nonce, serial);
  EXPECT_TRUE(until([&] { return attachments_ > before; }));
}

void HostSide::flush() {
  while (open_ && !mux_.pending_output().empty()) {
    ByteView out = mux_.pending_output();
    ssize_t put = ::send(socket_.get(), out.data(), out.size(), MSG_NOSIGNAL);
    if (put < 0 && errno == ENOTSOCK) put = ::write(socket_.get(), out.data(), out.size());
    if (put <= 0) {
      open_ = put < 0 && errno == EAGAIN;
      return;
    }
    mux_.consumed(static_cast<std::size_t>(put));
  }
}

bool HostSide::until(const std::function<bool()>& done) {
  auto end = std::chrono::steady_clock::now() + kDeadline;
  std::array<std::byte, 65536> buffer;
  while (!done()) {
    if (!open_ || std::chrono::steady_clock::now() > end) return false;
    flush();
    short events = mux_.pending_output().empty() ? POLLIN : POLLIN | POLLOUT;
    pollfd poll{socket_.get(), events, 0};
    ::poll(&poll, 1, 100);
    ssize_t got = ::read(socket_.get(), buffer.data(), buffer.size());
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
      open_ = false;
      continue;
    }
    if (got < 0) continue;
    auto received = mux_.receive(ByteView(buffer).first(static_cast<std::size_t>(got)), *this);
    EXPECT_TRUE(received.ok()) << received.error().describe();
  }
  flush();
  return true;
}

wire::StreamId HostSide::open_bytes(ByteView request) {
  auto stream = mux_.open(request);
  EXPECT_TRUE(stream.ok()) << stream.error().describe();
  flush();
  return *stream;
}

bool HostSide::send_all(wire::StreamId stream, std::string_view data) {
  return until([&] {
    data.remove_prefix(mux_.send_data(stream, 0, as_bytes(data)));
    flush();
    return data.empty() || calls_[stream].over();
  });
}

void HostSide::end(wire::StreamId stream) {
  mux_.end(stream);
  flush();
}

void HostSide::reset(wire::StreamId stream) {
  mux_.reset(stream);
  flush();
}

void HostSide::resume(wire::StreamId stream) {
  auto& call = calls_[stream];
  call.take_data = true;
  mux_.grant(stream, std::exchange(call.kept_back, 0));
  flush();
}

void HostSide::write_raw(ByteView bytes) {
  while (!bytes.empty()) {
    ssize_t put = ::write(socket_.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EAGAIN) continue;
    if (put <= 0) return;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

void HostSide::on_message(wire::StreamId stream, ByteView message) {
  auto reply = wire::unpack<guestapi::ReplyT>(message);
  EXPECT_TRUE(reply.ok());
  mux_.grant_message(stream, message.size());
  if (reply.ok())
    calls_[stream].messages.push_back(std::make_unique<guestapi::ReplyT>(std::move(reply).value()));
}

void HostSide::on_data(wire::StreamId stream, std::uint8_t channel, ByteView data) {
  auto& call = calls_[stream];
  ASSERT_LT(channel, 3);
  call.data[channel] += as_text(data);
  if (call.take_data) {
    mux_.grant(stream, data.size());
  } else {
    call.kept_back += data.size();
  }
}

void HostSide::on_end(wire::StreamId stream, ByteView status) {
  calls_[stream].status = wire::unpack_status(status);
}

DaemonProcess::DaemonProcess() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  socket_ = os::Fd(ends[0]);
  os::Fd theirs(::fcntl(ends[1], F_DUPFD, 3));
  ::close(ends[1]);
  start({"--fd", std::to_string(theirs.get())});
}

DaemonProcess::DaemonProcess(const std::string& path) {
  start({"--socket", path});
}

void DaemonProcess::start(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), SPACED_BINARY);
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  EXPECT_EQ(::posix_spawn(&pid_, argv[0], nullptr, nullptr, argv.data(), environ), 0);
}

int DaemonProcess::wait() {
  int status = -1;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  return status;
}

DaemonProcess::~DaemonProcess() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  wait();
}

guestapi::ExecT exec(std::string id, std::vector<std::string> argv) {
  guestapi::ExecT request;
  request.command_id = std::move(id);
  request.argv = std::move(argv);
  return request;
}

}  // namespace space::guest::testing
