// SPDX-License-Identifier: Apache-2.0
#include "control/upstream/node_client.h"

#include "lib/async/deadline.h"
#include "lib/wire/message.h"

namespace space::control::upstream {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kQuick = std::chrono::seconds(10);
// More than any node holds; a peer that sends more is broken.
constexpr std::size_t kMaxReplies = 100'000;

template <class Body>
Bytes ask(Body body) {
  return wire::pack_body<nodeapi::RequestT>(std::move(body));
}

// The replies of one kind until the call's end.
template <class Body>
async::Task<Result<std::vector<Body>>> collect(rpc::Call call) {
  std::vector<Body> all;
  for (;;) {
    SPACE_CO_TRY(rpc::CallEvent event, co_await call.next());
    if (auto* message = std::get_if<rpc::Message>(&event)) {
      SPACE_CO_TRY(Body body, wire::unpack_body<nodeapi::ReplyT, Body>(message->bytes));
      if (all.size() >= kMaxReplies)
        co_return make_error(Code::kDataLoss, "wire.unexpected_message", "the node sent too many replies");
      all.push_back(std::move(body));
    }
    if (auto* end = std::get_if<rpc::End>(&event)) {
      if (!end->status.ok()) co_return end->status.error();
      co_return all;
    }
  }
}

template <class Body>
async::Task<Result<std::vector<Body>>> ask_many(rpc::Client& client, Bytes request, milliseconds limit) {
  SPACE_CO_TRY(rpc::Call call, co_await client.start(std::move(request)));
  co_return co_await async::with_deadline(collect<Body>(std::move(call)), limit, "rpc.deadline",
                                          "the node agent did not answer in time");
}

template <class Body>
async::Task<Result<Body>> ask_one(rpc::Client& client, Bytes request, milliseconds limit) {
  SPACE_CO_TRY(Bytes answer, co_await client.unary(std::move(request), limit));
  co_return wire::unpack_body<nodeapi::ReplyT, Body>(answer);
}

}  // namespace

async::Task<Result<nodeapi::SandboxInfoT>> NodeClient::create_sandbox(nodeapi::CreateSandboxT request,
                                                                      milliseconds limit) {
  co_return co_await ask_one<nodeapi::SandboxInfoT>(client_, ask(std::move(request)), limit);
}

async::Task<Result<nodeapi::DestroyedT>> NodeClient::destroy_sandbox(SandboxId sandbox, milliseconds limit) {
  nodeapi::DestroySandboxT request;
  request.sandbox = sandbox.str();
  co_return co_await ask_one<nodeapi::DestroyedT>(client_, ask(std::move(request)), limit);
}

async::Task<Result<std::vector<nodeapi::SandboxInfoT>>> NodeClient::list_sandboxes() {
  co_return co_await ask_many<nodeapi::SandboxInfoT>(client_, ask(nodeapi::ListSandboxesT()), kQuick);
}

async::Task<Result<nodeapi::InfoT>> NodeClient::info() {
  co_return co_await ask_one<nodeapi::InfoT>(client_, ask(nodeapi::GetInfoT()), kQuick);
}

async::Task<Result<std::vector<nodeapi::TemplateT>>> NodeClient::list_templates() {
  co_return co_await ask_many<nodeapi::TemplateT>(client_, ask(nodeapi::ListTemplatesT()), kQuick);
}

async::Task<Result<nodeapi::TemplateT>> NodeClient::build_template(
    std::string name, std::function<async::Task<void>(std::string)> on_line) {
  nodeapi::BuildTemplateT request;
  request.name = std::move(name);
  SPACE_CO_TRY(rpc::Call call, co_await client_.start(ask(std::move(request))));
  Result<nodeapi::TemplateT> built =
      make_error(Code::kDataLoss, "wire.no_status", "the build ended without a result");
  for (;;) {
    SPACE_CO_TRY(rpc::CallEvent event, co_await call.next());
    if (auto* message = std::get_if<rpc::Message>(&event)) {
      SPACE_CO_TRY(auto reply, wire::unpack<nodeapi::ReplyT>(message->bytes));
      if (auto* progress = reply.body.AsProgress()) co_await on_line(progress->line);
      if (auto* done = reply.body.AsTemplate()) built = *done;
    }
    if (auto* end = std::get_if<rpc::End>(&event)) {
      if (!end->status.ok()) co_return end->status.error();
      co_return built;
    }
  }
}

async::Task<Result<void>> NodeClient::remove_template(std::string name) {
  nodeapi::RemoveTemplateT request;
  request.name = std::move(name);
  SPACE_CO_CHECK_OK(co_await client_.unary(ask(std::move(request)), std::chrono::seconds(30)));
  co_return Result<void>();
}

async::Task<Result<rpc::Call>> NodeClient::watch() {
  return client_.start(ask(nodeapi::WatchT()));
}

Result<nodeapi::EventT> NodeClient::read_event(const Bytes& message) {
  return wire::unpack_body<nodeapi::ReplyT, nodeapi::EventT>(message);
}

}  // namespace space::control::upstream
