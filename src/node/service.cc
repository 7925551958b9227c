// SPDX-License-Identifier: Apache-2.0
#include "node/service.h"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <deque>

#include "api/node_generated.h"
#include "lib/async/event.h"
#include "lib/wire/message.h"

namespace space::node {
namespace {

using boost::asio::experimental::awaitable_operators::operator||;
using boost::asio::experimental::awaitable_operators::operator&&;

// A message holds 64 KiB; the newest of a console's output matters most.
constexpr std::size_t kMaxTailBytes = 56 * 1024;

std::string text(const flatbuffers::String* string) {
  return string == nullptr ? std::string() : string->str();
}

std::vector<std::uint8_t> tail_bytes(const std::string& tail) {
  std::size_t from = tail.size() > kMaxTailBytes ? tail.size() - kMaxTailBytes : 0;
  return {tail.begin() + static_cast<std::ptrdiff_t>(from), tail.end()};
}

template <class Body>
Bytes reply(Body body) {
  return wire::pack_body<nodeapi::ReplyT>(std::move(body));
}

nodeapi::SandboxInfoT sandbox_message(const SandboxInfo& info) {
  nodeapi::SandboxInfoT message;
  message.sandbox = info.sandbox.str();
  message.session = info.session;
  message.tenant = info.tenant;
  message.generation = info.generation;
  message.state = info.state == SandboxInfo::State::kStarting  ? nodeapi::SandboxState::Starting
                  : info.state == SandboxInfo::State::kRunning ? nodeapi::SandboxState::Running
                                                               : nodeapi::SandboxState::Stopping;
  message.resources = std::make_unique<nodeapi::ResourcesT>();
  message.resources->vcpus = info.resources.vcpus;
  message.resources->memory_bytes = info.resources.memory_bytes;
  message.resources->disk_bytes = info.resources.disk_bytes;
  message.template_name = info.template_name;
  message.backend = info.backend;
  message.acceleration = info.acceleration;
  message.vmm_pid = static_cast<std::uint32_t>(info.vmm_pid);
  message.started_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(info.started.time_since_epoch()).count());
  message.kernel_boot_us = info.kernel_boot_us;
  message.adopted = info.adopted;
  return message;
}

nodeapi::EventT event_message(const NodeEvent& event) {
  nodeapi::EventT message;
  message.kind = event.kind == NodeEvent::Kind::kRecovered ? nodeapi::EventKind::Recovered
                                                           : nodeapi::EventKind::SandboxEnded;
  message.sandbox = event.sandbox.str();
  message.reason = event.reason;
  message.detail = event.detail;
  message.console_tail = tail_bytes(event.console_tail);
  message.adopted = event.adopted;
  message.destroyed = event.destroyed;
  return message;
}

nodeapi::TemplateT template_message(const TemplateInfo& info) {
  nodeapi::TemplateT message;
  message.name = info.name;
  switch (info.state) {
    case TemplateInfo::State::kReady:
      message.state = nodeapi::TemplateState::Ready;
      break;
    case TemplateInfo::State::kBuilding:
      message.state = nodeapi::TemplateState::Building;
      break;
    case TemplateInfo::State::kFailed:
      message.state = nodeapi::TemplateState::Failed;
      break;
    case TemplateInfo::State::kRecipe:
      message.state = nodeapi::TemplateState::Recipe;
      break;
  }
  message.description = info.description;
  message.disk_bytes = info.disk_bytes;
  message.stored_bytes = info.stored_bytes;
  message.vcpus = info.vcpus;
  message.memory_bytes = info.memory_bytes;
  message.built_ms = info.built_ms;
  message.digest = info.digest;
  message.reason = info.reason;
  return message;
}

bool is_host_name(const std::string& name) {
  return name.size() <= 63 &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos &&
         !name.starts_with('-');
}

}  // namespace

async::Task<void> Service::answer(rpc::Call call) {
  Bytes aligned = call.request();
  auto request = wire::verify<nodeapi::Request>(aligned);
  if (!request.ok()) {
    call.finish(field_error("request", "node.malformed_request", "the request failed verification"));
    co_return;
  }
  call.finish(co_await dispatch(call, **request));
}

async::Task<Result<void>> Service::dispatch(rpc::Call& call, const nodeapi::Request& request) {
  switch (request.body_type()) {
    case nodeapi::RequestBody::CreateSandbox:
      co_return co_await create(call, *request.body_as_CreateSandbox());
    case nodeapi::RequestBody::DestroySandbox:
      co_return co_await destroy(call, *request.body_as_DestroySandbox());
    case nodeapi::RequestBody::ListSandboxes:
      co_return co_await list(call);
    case nodeapi::RequestBody::Watch:
      co_return co_await watch(call);
    case nodeapi::RequestBody::GetInfo:
      co_return co_await info(call);
    case nodeapi::RequestBody::ListTemplates:
      co_return co_await list_templates(call);
    case nodeapi::RequestBody::BuildTemplate:
      co_return co_await build_template(call, *request.body_as_BuildTemplate());
    case nodeapi::RequestBody::RemoveTemplate:
      co_return co_await actions_.remove_template(request.body_as_RemoveTemplate()->name()->str());
    case nodeapi::RequestBody::NONE:
      break;
  }
  co_return make_error(Code::kUnimplemented, "node.unknown_request", "this node doesn't know that request");
}

async::Task<Result<void>> Service::create(rpc::Call& call, const nodeapi::CreateSandbox& request) {
  CreateSandbox wanted;
  SPACE_CO_TRY(wanted.sandbox, SandboxId::parse(request.sandbox()->string_view()));
  wanted.session = request.session()->str();
  wanted.tenant = request.tenant()->str();
  wanted.generation = request.generation();
  wanted.template_name = request.template_name()->str();
  wanted.resources = {request.resources()->vcpus(), request.resources()->memory_bytes(),
                      request.resources()->disk_bytes()};
  wanted.hostname = text(request.hostname());
  // It becomes a word of the guest's kernel command line.
  if (!is_host_name(wanted.hostname))
    co_return field_error("hostname", "node.bad_hostname", "a host name has at most 63 of a-z, 0-9 and -");
  wanted.limit = std::chrono::milliseconds(request.deadline_ms());
  if (wanted.limit < std::chrono::milliseconds(1) || wanted.limit > kLongestCreateLimit) {
    co_return field_error("deadline_ms", "node.bad_deadline", "the deadline must be 1 ms to 10 minutes");
  }
  SPACE_CO_TRY(SandboxInfo info, co_await actions_.create(std::move(wanted)));
  co_return co_await call.send_message(reply(sandbox_message(info)));
}

async::Task<Result<void>> Service::destroy(rpc::Call& call, const nodeapi::DestroySandbox& request) {
  SPACE_CO_TRY(SandboxId sandbox, SandboxId::parse(request.sandbox()->string_view()));
  SPACE_CO_TRY(auto destroyed,
               co_await actions_.destroy(sandbox, std::chrono::milliseconds(request.grace_ms())));
  nodeapi::DestroyedT message;
  message.existed = destroyed.existed;
  message.console_tail = tail_bytes(destroyed.console_tail);
  co_return co_await call.send_message(reply(std::move(message)));
}

async::Task<Result<void>> Service::list(rpc::Call& call) {
  for (const auto& info : actions_.list())
    SPACE_CO_CHECK_OK(co_await call.send_message(reply(sandbox_message(info))));
  co_return Result<void>();
}

async::Task<Result<void>> Service::watch(rpc::Call& call) {
  auto feed = actions_.watch();
  for (;;) {
    auto outcome = co_await (feed->next() || call.gone());
    if (outcome.index() == 1) co_return std::get<1>(std::move(outcome));
    SPACE_CO_TRY(NodeEvent event, std::get<0>(std::move(outcome)));
    SPACE_CO_CHECK_OK(co_await call.send_message(reply(event_message(event))));
  }
}

async::Task<Result<void>> Service::info(rpc::Call& call) {
  SPACE_CO_TRY(NodeInfo info, co_await actions_.info());
  nodeapi::InfoT message;
  message.node = info.node;
  message.version = info.version;
  message.backend = info.backend;
  message.acceleration = info.acceleration;
  message.cpus = info.cpus;
  message.memory_bytes = info.memory_bytes;
  message.memory_committed_bytes = info.memory_committed_bytes;
  message.disk_free_bytes = info.disk_free_bytes;
  message.sandboxes = info.sandboxes;
  co_return co_await call.send_message(reply(std::move(message)));
}

async::Task<Result<void>> Service::list_templates(rpc::Call& call) {
  SPACE_CO_TRY(auto infos, co_await actions_.list_templates());
  for (const auto& info : infos) SPACE_CO_CHECK_OK(co_await call.send_message(reply(template_message(info))));
  co_return Result<void>();
}

// Between the build, which doesn't wait for readers, and the call, which sends as fast as it can.
struct ProgressQueue {
  explicit ProgressQueue(const async::Executor& executor) : changed(executor) {}
  std::deque<BuildProgress> lines;  // at most kMaxLines, the newest
  bool over = false;
  Result<TemplateInfo> outcome;
  async::Event changed;
  static constexpr std::size_t kMaxLines = 1000;
};

async::Task<Result<void>> Service::build(std::string name, ProgressQueue& queue) {
  queue.outcome = co_await actions_.build_template(std::move(name), [&queue](BuildProgress progress) {
    if (queue.lines.size() >= ProgressQueue::kMaxLines) queue.lines.pop_front();
    queue.lines.push_back(std::move(progress));
    queue.changed.notify_all();
  });
  queue.over = true;
  queue.changed.notify_all();
  co_return Result<void>();
}

namespace {

async::Task<Result<void>> send_progress(rpc::Call& call, ProgressQueue& queue) {
  for (;;) {
    while (!queue.lines.empty()) {
      nodeapi::ProgressT message;
      message.line = std::move(queue.lines.front().line);
      message.elapsed_ms = static_cast<std::uint64_t>(queue.lines.front().elapsed.count());
      queue.lines.pop_front();
      SPACE_CO_CHECK_OK(co_await call.send_message(reply(std::move(message))));
    }
    if (queue.over) break;
    co_await queue.changed.wait();
  }
  SPACE_CO_TRY(TemplateInfo info, queue.outcome);
  co_return co_await call.send_message(reply(template_message(info)));
}

}  // namespace

async::Task<Result<void>> Service::build_template(rpc::Call& call, const nodeapi::BuildTemplate& request) {
  ProgressQueue queue(executor_);
  // A caller that leaves only stops watching: the build goes on.
  auto both = co_await (build(request.name()->str(), queue) && send_progress(call, queue));
  co_return std::get<1>(std::move(both));
}

}  // namespace space::node
