// SPDX-License-Identifier: Apache-2.0
#include "link/node_door.h"

#include <fcntl.h>

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "lib/wire/message.h"
#include "link/call_rules.h"

namespace space::link {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

// Sockets should come non-blocking; one that doesn't would stop the loop.
void make_non_blocking(const os::Fd& fd) {
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

// Asks the daemon who it is. One answer, judged like any other.
async::Task<Result<guestapi::HelloReplyT>> say_hello(Attachment& attachment) {
  SPACE_CO_TRY(Attachment::Slot slot, attachment.reserve());
  RequestFacts facts;
  facts.kind = guestapi::RequestBody::Hello;
  CallRules rules(facts);
  SPACE_CO_TRY(rpc::Call call, attachment.open(wire::pack_body<guestapi::RequestT>(guestapi::HelloT{})));
  guestapi::HelloReplyT hello;
  for (;;) {
    auto event = co_await call.next();
    if (!event.ok()) co_return attachment.explain(event.error());
    Result<void> allowed;
    if (auto* message = std::get_if<rpc::Message>(&*event)) {
      auto clean = rules.on_message(message->bytes);
      if (clean.ok()) {
        SPACE_CO_TRY(hello, wire::unpack_body<guestapi::ReplyT, guestapi::HelloReplyT>(*clean));
      } else {
        allowed = std::move(clean).error();
      }
    } else if (auto* data = std::get_if<rpc::Data>(&*event)) {
      allowed = rules.on_data(data->channel, data->bytes.size());
    } else {
      auto ending = rules.on_end(std::get<rpc::End>(*event).status);
      if (ending.ok() && !ending->status.ok()) co_return ending->status.error();
      if (ending.ok()) co_return hello;
      allowed = std::move(ending).error();
    }
    if (!allowed.ok()) {
      attachment.fail_protocol(allowed.error());
      co_return std::move(allowed).error();
    }
  }
}

async::Task<Result<guestapi::HelloReplyT>> attached_and_hello(Attachment& attachment,
                                                              std::chrono::milliseconds limit) {
  using boost::asio::experimental::awaitable_operators::operator||;
  SteadyTime deadline = std::chrono::steady_clock::now() + limit;
  SPACE_CO_CHECK_OK(co_await attachment.wait_attached(deadline));
  auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  auto outcome =
      co_await (say_hello(attachment) || async::sleep_for(std::max(left, std::chrono::milliseconds(0))));
  if (outcome.index() == 0) co_return std::get<0>(std::move(outcome));
  co_return make_error(Code::kDeadlineExceeded, "link.guest_not_answering",
                       "the sandbox's daemon is attached but did not say hello in time");
}

// `work`, unless the client leaves first.
template <class T>
async::Task<Result<T>> unless_gone(rpc::Call& call, async::Task<Result<T>> work) {
  using boost::asio::experimental::awaitable_operators::operator||;
  auto outcome = co_await (std::move(work) || call.gone());
  if (outcome.index() == 0) co_return std::get<0>(std::move(outcome));
  co_return std::get<1>(std::move(outcome));
}

}  // namespace

async::Task<void> NodeDoor::answer(rpc::Call call) {
  Bytes aligned = call.request();
  auto request = wire::verify<linkapi::Request>(aligned);
  if (!request.ok()) {
    call.finish(field_error("request", "link.malformed_request", "the request failed verification"));
    co_return;
  }
  call.finish(co_await dispatch(call, **request));
}

async::Task<Result<void>> NodeDoor::dispatch(rpc::Call& call, const linkapi::Request& request) {
  switch (request.body_type()) {
    case linkapi::RequestBody::AttachSandbox:
      co_return co_await attach(call, *request.body_as_AttachSandbox());
    case linkapi::RequestBody::WaitReady:
      co_return co_await wait_ready(call, *request.body_as_WaitReady());
    case linkapi::RequestBody::DetachSandbox:
      co_return co_await detach(call, *request.body_as_DetachSandbox());
    case linkapi::RequestBody::Machine:
      co_return co_await machine(call, *request.body_as_Machine());
    case linkapi::RequestBody::Watch:
      co_return co_await watch(call);
    default:
      break;
  }
  log_.warning("refused", {{"door", "node"}, {"kind", linkapi::EnumNameRequestBody(request.body_type())}});
  co_return make_error(Code::kPermissionDenied, "link.wrong_socket",
                       "this request is not served on the node socket");
}

async::Task<Result<void>> NodeDoor::attach(rpc::Call& call, const linkapi::AttachSandbox& request) {
  // Before anything else: the descriptors of the next call wait behind these.
  SPACE_CO_TRY(std::vector<os::Fd> fds, call.take_fds(3));
  SPACE_CO_TRY(SandboxId sandbox, SandboxId::parse(request.sandbox()->string_view()));
  for (const auto& fd : fds) make_non_blocking(fd);
  Attachment::Sockets sockets{std::move(fds[0]), std::move(fds[1]), std::move(fds[2])};
  SPACE_CO_TRY(std::shared_ptr<Attachment> attachment,
               sandboxes_.attach(sandbox, Generation(request.generation()), std::move(sockets)));
  auto ready = co_await unless_gone(call, attachment->qmp().wait_ready(kQmpHandshakeLimit));
  log_.info("attach", {{"sandbox", sandbox.str()},
                       {"generation", std::to_string(request.generation())},
                       {"outcome", ready.ok() ? "ok" : ready.error().reason}});
  // A client that left will attach anew; an attachment whose VMM doesn't talk is of no use.
  if (!ready.ok() && !ready.error().reason.starts_with("rpc.")) co_await sandboxes_.detach(attachment);
  co_return ready;
}

async::Task<Result<void>> NodeDoor::wait_ready(rpc::Call& call, const linkapi::WaitReady& request) {
  SPACE_CO_TRY(SandboxId sandbox, SandboxId::parse(request.sandbox()->string_view()));
  SPACE_CO_TRY(std::shared_ptr<Attachment> attachment, sandboxes_.find(sandbox));
  auto hello = co_await unless_gone(
      call, attached_and_hello(*attachment, std::chrono::milliseconds(request.deadline_ms())));
  log_.info("wait_ready",
            {{"sandbox", sandbox.str()}, {"outcome", hello.ok() ? "ok" : hello.error().reason}});
  if (!hello.ok()) co_return std::move(hello).error();
  linkapi::GuestReadyT ready;
  ready.protocol = hello->protocol;
  ready.version = hello->version;
  ready.kernel = hello->kernel;
  ready.kernel_boot_us = hello->kernel_boot_us;
  ready.ready_us = hello->ready_us;
  co_return co_await call.send_message(wire::pack_body<linkapi::ReplyT>(std::move(ready)));
}

async::Task<Result<void>> NodeDoor::detach(rpc::Call& call, const linkapi::DetachSandbox& request) {
  SPACE_CO_TRY(SandboxId sandbox, SandboxId::parse(request.sandbox()->string_view()));
  SPACE_CO_TRY(std::shared_ptr<Attachment> attachment, sandboxes_.find(sandbox));
  co_await sandboxes_.detach(attachment);
  log_.info("detach", {{"sandbox", sandbox.str()},
                       {"console_bytes", std::to_string(attachment->console()->ring().end())}});
  Bytes tail = attachment->console()->ring().tail(kConsoleTailBytes);
  linkapi::ConsoleTailT reply;
  reply.text.resize(tail.size());
  if (!tail.empty()) std::memcpy(reply.text.data(), tail.data(), tail.size());
  co_return co_await call.send_message(wire::pack_body<linkapi::ReplyT>(std::move(reply)));
}

async::Task<Result<void>> NodeDoor::machine(rpc::Call& call, const linkapi::Machine& request) {
  SPACE_CO_TRY(SandboxId sandbox, SandboxId::parse(request.sandbox()->string_view()));
  if (request.command() > linkapi::MachineCommand::MAX)
    co_return field_error("command", "link.malformed_request", "there is no such machine command");
  SPACE_CO_TRY(std::shared_ptr<Attachment> attachment, sandboxes_.find(sandbox));
  auto state = co_await unless_gone(
      call, attachment->qmp().command(request.command(), std::chrono::milliseconds(request.deadline_ms())));
  log_.info("machine",
            {{"sandbox", sandbox.str()},
             {"command", linkapi::EnumNameMachineCommand(request.command())},
             {"outcome", state.ok() ? linkapi::EnumNameMachineState(*state) : state.error().reason}});
  if (!state.ok()) co_return std::move(state).error();
  linkapi::MachineStatusT reply;
  reply.state = *state;
  co_return co_await call.send_message(wire::pack_body<linkapi::ReplyT>(std::move(reply)));
}

// Runs until the client leaves: its handler is then cancelled with the connection, or notices here.
async::Task<Result<void>> NodeDoor::watch(rpc::Call& call) {
  EventHub::Watcher watcher(executor_, hub_);
  for (;;) {
    using boost::asio::experimental::awaitable_operators::operator||;
    auto outcome = co_await (watcher.next() || call.gone());
    if (outcome.index() == 1) co_return std::get<1>(std::move(outcome));
    SandboxEvent event = std::get<0>(std::move(outcome));
    log_.info("event", {{"sandbox", event.sandbox.str()},
                        {"kind", linkapi::EnumNameEventKind(event.kind)},
                        {"detail", event.detail}});
    linkapi::EventT message;
    message.sandbox = event.sandbox.str();
    message.kind = event.kind;
    message.detail = event.detail;
    SPACE_CO_CHECK_OK(co_await call.send_message(wire::pack_body<linkapi::ReplyT>(std::move(message))));
  }
}

}  // namespace space::link
