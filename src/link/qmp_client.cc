// SPDX-License-Identifier: Apache-2.0
#include "link/qmp_client.h"

#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>

namespace space::link {
namespace asio = boost::asio;
namespace {

using linkapi::MachineCommand;
using linkapi::MachineState;

constexpr std::size_t kReadBytes = 16 * 1024;
constexpr std::size_t kMaxPending = 16;

Error closed_error(const std::string& why) {
  return make_error(Code::kUnavailable, "link.qmp_closed", why);
}
Error silent_error() {
  return make_error(Code::kDeadlineExceeded, "link.qmp_not_answering",
                    "the VMM did not answer on its machine socket in time");
}

std::string_view command_name(MachineCommand command) {
  switch (command) {
    case MachineCommand::QueryStatus:
      return "query-status";
    case MachineCommand::Stop:
      return "stop";
    case MachineCommand::Continue:
      return "cont";
    case MachineCommand::Quit:
      return "quit";
    case MachineCommand::PowerDown:
      return "system_powerdown";
  }
  return "query-status";
}

}  // namespace

QmpClient::QmpClient(const async::Executor& executor, os::Fd socket, OnEvent on_event)
    : socket_(executor, socket.release()),
      on_event_(std::move(on_event)),
      changed_(executor),
      scope_(executor) {}

void QmpClient::start() {
  scope_.spawn(read_loop());
  scope_.spawn(handshake());
}

async::Task<void> QmpClient::read_loop() {
  Bytes buffer(kReadBytes);
  while (!dead_) {
    ssize_t got = ::recv(socket_.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      boost::system::error_code error;
      co_await socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                                  asio::redirect_error(asio::use_awaitable, error));
      if (error) co_return;
      continue;
    }
    if (got <= 0) {
      close(closed_error("the VMM closed its machine socket"));
      co_return;
    }
    Result<void> outcome = lines_.append(ByteView(buffer).first(static_cast<std::size_t>(got)));
    while (outcome.ok()) {
      auto line = lines_.next();
      if (!line) break;
      auto message = parse_qmp(*line);
      outcome = message.ok() ? take(*message) : Result<void>(std::move(message).error());
    }
    if (!outcome.ok()) {
      close(std::move(outcome).error());
      co_return;
    }
    // A VMM that never stops talking must not keep the loop.
    co_await asio::post(socket_.get_executor(), asio::use_awaitable);
  }
}

Result<void> QmpClient::take(const QmpMessage& message) {
  auto violation = [](const char* what) { return make_error(Code::kDataLoss, "link.qmp_protocol", what); };
  if (std::holds_alternative<QmpGreeting>(message)) {
    if (greeted_) return violation("the VMM greeted twice");
    greeted_ = true;
  } else if (const auto* event = std::get_if<QmpEvent>(&message)) {
    on_event_(*event);
  } else if (const auto* answer = std::get_if<QmpAnswer>(&message)) {
    auto it = pending_.find(answer->id);
    if (it == pending_.end() || it->second.answer) return violation("the VMM answered what was not asked");
    if (it->second.abandoned) {
      pending_.erase(it);
    } else {
      it->second.answer = *answer;
    }
  }
  changed_.notify_all();
  return {};
}

async::Task<Result<void>> QmpClient::send(std::string line, std::chrono::steady_clock::time_point deadline) {
  // One line at a time.
  while (sending_ && !dead_) {
    if (!co_await changed_.wait_until(deadline) && sending_) co_return silent_error();
  }
  struct Lower {
    QmpClient& client;
    ~Lower() {
      client.sending_ = false;
      client.changed_.notify_all();
    }
  };
  sending_ = true;
  Lower lower{*this};
  bool begun = false;
  for (ByteView rest = as_bytes(line); !rest.empty();) {
    if (dead_) co_return *dead_;
    ssize_t put = ::send(socket_.native_handle(), rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put > 0) {
      rest = rest.subspan(static_cast<std::size_t>(put));
      begun = true;
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      close(closed_error("the VMM closed its machine socket"));
      co_return *dead_;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      // Half a line would garble the next one.
      if (begun) close(closed_error("the VMM does not read its machine socket"));
      co_return silent_error();
    }
    co_await async::sleep_for(std::chrono::milliseconds(5));
  }
  co_return Result<void>();
}

async::Task<Result<QmpAnswer>> QmpClient::execute(std::string_view name,
                                                  std::chrono::steady_clock::time_point deadline) {
  if (dead_) co_return *dead_;
  if (pending_.size() >= kMaxPending) {
    close(closed_error("the VMM leaves its commands unanswered"));
    co_return *dead_;
  }
  std::uint64_t id = next_id_++;
  pending_.emplace(id, Pending{});
  // Whatever way this ends, cancellation included, the late answer is expected.
  struct Abandon {
    QmpClient& client;
    std::uint64_t id;
    ~Abandon() {
      auto it = client.pending_.find(id);
      if (it == client.pending_.end()) return;
      if (it->second.answer) {
        client.pending_.erase(it);
      } else {
        it->second.abandoned = true;
      }
    }
  } abandon{*this, id};
  SPACE_CO_CHECK_OK(co_await send(qmp_command(name, id), deadline));
  while (!pending_.at(id).answer) {
    if (dead_) co_return *dead_;
    if (!co_await changed_.wait_until(deadline) && !pending_.at(id).answer && !dead_)
      co_return silent_error();
  }
  co_return *pending_.at(id).answer;
}

async::Task<void> QmpClient::handshake() {
  while (!greeted_) {
    if (dead_) co_return;
    co_await changed_.wait();
  }
  auto answer = co_await execute("qmp_capabilities", std::chrono::steady_clock::time_point::max());
  if (!answer.ok()) co_return;  // only when the client is dead
  if (answer->error) {
    close(std::move(*answer->error));
    co_return;
  }
  ready_ = true;
  changed_.notify_all();
}

async::Task<Result<void>> QmpClient::wait_ready(std::chrono::milliseconds limit) {
  auto deadline = std::chrono::steady_clock::now() + limit;
  while (!ready_) {
    if (dead_) co_return *dead_;
    if (!co_await changed_.wait_until(deadline) && !ready_ && !dead_) co_return silent_error();
  }
  co_return Result<void>();
}

async::Task<Result<MachineState>> QmpClient::command(MachineCommand command,
                                                     std::chrono::milliseconds limit) {
  auto deadline = std::chrono::steady_clock::now() + limit;
  SPACE_CO_CHECK_OK(co_await wait_ready(limit));
  if (command == MachineCommand::Quit) quitting_ = true;
  auto answer = co_await execute(command_name(command), deadline);
  if (command == MachineCommand::Quit) {
    bool gone = answer.ok() ? !answer->error : answer.error().reason == "link.qmp_closed";
    if (gone) co_return MachineState::Shutdown;
  }
  if (!answer.ok()) co_return std::move(answer).error();
  if (answer->error) co_return *answer->error;
  if (command == MachineCommand::QueryStatus) co_return answer->state;
  SPACE_CO_TRY(QmpAnswer status, co_await execute("query-status", deadline));
  if (status.error) co_return *status.error;
  co_return status.state;
}

void QmpClient::close(Error why) {
  if (dead_) return;
  dead_ = why;
  boost::system::error_code ignored;
  socket_.close(ignored);
  changed_.notify_all();
  on_event_(QmpEvent{linkapi::EventKind::QmpClosed, quitting_                           ? "quit"
                                                    : why.reason == "link.qmp_protocol" ? "protocol error"
                                                                                        : "closed"});
}

async::Task<void> QmpClient::stop() {
  if (!dead_) {
    dead_ = closed_error("this side closed the machine socket");
    boost::system::error_code ignored;
    socket_.close(ignored);
    changed_.notify_all();
  }
  co_await scope_.stop();
}

}  // namespace space::link
