// SPDX-License-Identifier: Apache-2.0
#include "tests/testkit/platform/fake_link.h"

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include "api/link_generated.h"
#include "lib/os/unix_socket.h"
#include "lib/wire/message.h"
#include "tests/testkit/platform/fake_guest.h"

namespace space::testkit {
namespace {

async::Task<void> until_ended(std::shared_ptr<FakeSandbox> sandbox) {
  while (!sandbox->ended) co_await sandbox->changed.wait();
}

async::Task<void> console(rpc::Call& call, std::shared_ptr<FakeSandbox> sandbox, bool follow) {
  (co_await call.send_data(1, as_bytes("[    0.0] booting\n\x1b[31mred\x1b[0m\n"))).ignore("test");
  if (follow) co_await until_ended(sandbox);
  call.finish({});
}

}  // namespace

FakeLink::FakeLink(const async::Executor& executor, std::string socket_path, FakeSandboxes& sandboxes)
    : executor_(executor), path_(std::move(socket_path)), sandboxes_(sandboxes) {}

void FakeLink::start() {
  server_ = std::make_unique<rpc::Server>(executor_, *os::listen_unix(path_),
                                          [this](rpc::Call call) { return answer(std::move(call)); });
  server_->start();
}

async::Task<void> FakeLink::stop() {
  if (!server_) co_return;
  co_await server_->stop();
  server_.reset();
}

async::Task<void> FakeLink::answer(rpc::Call call) {
  auto request = wire::unpack<linkapi::RequestT>(call.request());
  if (!request.ok()) co_return call.finish(request.error());
  auto* guest_call = request->body.AsGuestCall();
  auto* console_call = request->body.AsConsole();
  std::string id = guest_call != nullptr     ? guest_call->sandbox
                   : console_call != nullptr ? console_call->sandbox
                                             : "";
  auto found = sandboxes_.find(id);
  if (found == sandboxes_.end() || knows_nobody)
    co_return call.finish(make_error(Code::kNotFound, "link.no_such_sandbox", "no such sandbox"));
  auto sandbox = found->second;
  if (console_call != nullptr) co_return co_await console(call, sandbox, console_call->follow);
  if (silent) {
    co_await async::sleep_for(
        std::chrono::milliseconds(std::min<std::uint32_t>(guest_call->answer_deadline_ms, 200)));
    co_return call.finish(
        make_error(Code::kDeadlineExceeded, "link.guest_not_answering", "the guest does not answer"));
  }
  ++sandbox->guest_calls;
  const auto* begin = reinterpret_cast<const std::byte*>(guest_call->request.data());  // SAFETY: bytes alias
  Bytes inner(begin, begin + guest_call->request.size());
  using boost::asio::experimental::awaitable_operators::operator||;
  auto outcome = co_await (serve_guest_call(call, inner, sandbox) || until_ended(sandbox));
  if (outcome.index() == 1)
    call.finish(make_error(Code::kAborted, "link.sandbox_gone", "the sandbox has ended"));
}

}  // namespace space::testkit
