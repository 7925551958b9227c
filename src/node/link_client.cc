// SPDX-License-Identifier: Apache-2.0
#include "node/link_client.h"

#include "api/link_generated.h"
#include "lib/wire/message.h"

namespace space::node {
namespace {

constexpr auto kPauseAfterLoss = std::chrono::milliseconds(50);
constexpr auto kDetachLimit = std::chrono::seconds(10);
constexpr auto kMachineLimit = std::chrono::seconds(5);
// What the network of processes itself may need on top of a limit that link keeps.
constexpr auto kSlack = std::chrono::seconds(2);

template <class Body>
Bytes request(Body body) {
  return wire::pack_body<linkapi::RequestT>(std::move(body));
}

LinkEventKind kind_of(linkapi::EventKind kind) {
  switch (kind) {
    case linkapi::EventKind::ChannelClosed:
      return LinkEventKind::kChannelClosed;
    case linkapi::EventKind::ProtocolError:
      return LinkEventKind::kProtocolError;
    case linkapi::EventKind::GuestShutdown:
      return LinkEventKind::kGuestShutdown;
    case linkapi::EventKind::GuestPanicked:
      return LinkEventKind::kGuestPanicked;
    case linkapi::EventKind::BlockIoError:
      return LinkEventKind::kBlockIoError;
    case linkapi::EventKind::QmpClosed:
      return LinkEventKind::kQmpClosed;
  }
  return LinkEventKind::kChannelClosed;
}

}  // namespace

LinkClient::LinkClient(const async::Executor& executor, os::Random& random, const obs::Log& log,
                       std::string socket_path)
    : log_(log),
      client_(executor, random, "space-link", rpc::Client::to_path(std::move(socket_path))),
      scope_(executor) {}

void LinkClient::watch(OnEvent on_event, OnConnected on_connected) {
  on_event_ = std::move(on_event);
  on_connected_ = std::move(on_connected);
  scope_.spawn(follow());
}

async::Task<void> LinkClient::follow() {
  bool said = false;
  for (;;) {
    auto ended = co_await follow_once();
    if (!ended.ok() && !said) log_.warning("link_lost", {{"error", ended.error().describe()}});
    // One line per loss, not one per attempt.
    said = !ended.ok() && ended.error().reason == "rpc.unreachable";
    co_await async::sleep_for(kPauseAfterLoss);
  }
}

async::Task<Result<void>> LinkClient::follow_once() {
  SPACE_CO_TRY(rpc::Call call, co_await client_.start(request(linkapi::WatchT{})));
  on_connected_();
  for (;;) {
    SPACE_CO_TRY(rpc::CallEvent event, co_await call.next());
    if (auto* end = std::get_if<rpc::End>(&event)) co_return end->status;
    auto* message = std::get_if<rpc::Message>(&event);
    if (message == nullptr) continue;
    auto body = wire::unpack_body<linkapi::ReplyT, linkapi::EventT>(message->bytes);
    if (!body.ok()) co_return std::move(body).error();
    auto sandbox = SandboxId::parse(body->sandbox);
    if (sandbox.ok()) on_event_({*sandbox, kind_of(body->kind), body->detail});
  }
}

async::Task<Result<void>> LinkClient::attach(SandboxId sandbox, std::uint64_t generation,
                                             std::vector<os::Fd> sockets, std::chrono::milliseconds limit) {
  linkapi::AttachSandboxT body;
  body.sandbox = sandbox.str();
  body.generation = generation;
  auto answer = co_await client_.unary(request(std::move(body)), limit, std::move(sockets));
  if (!answer.ok()) co_return std::move(answer).error();
  co_return Result<void>();
}

async::Task<Result<GuestReady>> LinkClient::wait_ready(SandboxId sandbox, std::chrono::milliseconds limit) {
  linkapi::WaitReadyT body;
  body.sandbox = sandbox.str();
  body.deadline_ms = static_cast<std::uint32_t>(limit.count());
  SPACE_CO_TRY(Bytes answer, co_await client_.unary(request(std::move(body)), limit + kSlack));
  SPACE_CO_TRY(auto ready, wire::unpack_body<linkapi::ReplyT, linkapi::GuestReadyT>(answer));
  GuestReady result;
  result.version = escape(ready.version);
  result.kernel = escape(ready.kernel);
  result.kernel_boot_us = ready.kernel_boot_us;
  co_return result;
}

async::Task<Result<std::string>> LinkClient::detach(SandboxId sandbox) {
  linkapi::DetachSandboxT body;
  body.sandbox = sandbox.str();
  SPACE_CO_TRY(Bytes answer, co_await client_.unary(request(std::move(body)), kDetachLimit));
  SPACE_CO_TRY(auto tail, wire::unpack_body<linkapi::ReplyT, linkapi::ConsoleTailT>(answer));
  co_return std::string(tail.text.begin(), tail.text.end());
}

async::Task<Result<void>> LinkClient::power_down(SandboxId sandbox) {
  linkapi::MachineT body;
  body.sandbox = sandbox.str();
  body.command = linkapi::MachineCommand::PowerDown;
  auto answer = co_await client_.unary(request(std::move(body)), kMachineLimit);
  if (!answer.ok()) co_return std::move(answer).error();
  co_return Result<void>();
}

async::Task<void> LinkClient::stop() {
  co_await scope_.stop();
  co_await client_.stop();
}

}  // namespace space::node
