// SPDX-License-Identifier: Apache-2.0
#include "link/console.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>

namespace space::link {
namespace asio = boost::asio;
namespace {
constexpr std::size_t kReadBytes = 16 * 1024;
}

void ConsoleRing::append(ByteView bytes) {
  end_ += bytes.size();
  if (bytes.size() > kConsoleRingBytes) bytes = bytes.last(kConsoleRingBytes);
  std::size_t room = std::min(kConsoleRingBytes - kept_.size(), bytes.size());
  kept_.insert(kept_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(room));
  for (ByteView rest = bytes.subspan(room); !rest.empty();) {
    std::size_t take = std::min(rest.size(), kConsoleRingBytes - start_);
    std::copy_n(rest.begin(), take, kept_.begin() + static_cast<std::ptrdiff_t>(start_));
    start_ = (start_ + take) % kConsoleRingBytes;
    rest = rest.subspan(take);
  }
}

Bytes ConsoleRing::read(std::uint64_t& offset, std::size_t max) const {
  offset = std::clamp(offset, begin(), end_);
  auto size = static_cast<std::size_t>(std::min<std::uint64_t>(end_ - offset, max));
  Bytes out;
  out.reserve(size);
  std::size_t at = kept_.empty() ? 0 : (start_ + static_cast<std::size_t>(offset - begin())) % kept_.size();
  while (out.size() < size) {
    std::size_t take = std::min(size - out.size(), kept_.size() - at);
    out.insert(out.end(), kept_.begin() + static_cast<std::ptrdiff_t>(at),
               kept_.begin() + static_cast<std::ptrdiff_t>(at + take));
    at = 0;
  }
  offset += size;
  return out;
}

Bytes ConsoleRing::tail(std::size_t max) const {
  std::uint64_t offset = end_ - std::min<std::uint64_t>(kept_.size(), max);
  return read(offset, max);
}

void Console::append(ByteView bytes) {
  ring_.append(bytes);
  changed_.notify_all();
}

void Console::finish() {
  finished_ = true;
  changed_.notify_all();
}

ConsoleReader::ConsoleReader(const async::Executor& executor, os::Fd socket, std::shared_ptr<Console> console)
    : socket_(executor, socket.release()), console_(std::move(console)), scope_(executor) {}

void ConsoleReader::start() {
  scope_.spawn(read_loop());
}

std::ptrdiff_t ConsoleReader::move_some() {
  std::byte buffer[kReadBytes];
  ssize_t got = 0;
  do {
    got = ::recv(socket_.native_handle(), buffer, sizeof buffer, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got > 0) console_->append(ByteView(buffer, static_cast<std::size_t>(got)));
  if (got < 0 && errno == EAGAIN) return 0;
  return got <= 0 ? -1 : got;
}

async::Task<void> ConsoleReader::read_loop() {
  for (;;) {
    std::ptrdiff_t moved = move_some();
    if (moved < 0) co_return;
    if (moved == 0) {
      boost::system::error_code error;
      co_await socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                                  asio::redirect_error(asio::use_awaitable, error));
      if (error) co_return;
    } else {
      // A console that is never silent must not keep the loop.
      co_await asio::post(socket_.get_executor(), asio::use_awaitable);
    }
  }
}

async::Task<void> ConsoleReader::stop() {
  co_await scope_.stop();
  if (!socket_.is_open()) co_return;
  for (std::size_t moved = 0; moved < kConsoleRingBytes;) {
    std::ptrdiff_t some = move_some();
    if (some <= 0) break;
    moved += static_cast<std::size_t>(some);
  }
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace space::link
