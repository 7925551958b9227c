// SPDX-License-Identifier: Apache-2.0
#include "tests/testkit/platform/fake_node.h"

#include <algorithm>

#include "lib/os/unix_socket.h"
#include "lib/wire/message.h"

namespace space::testkit {
namespace {

template <class Body>
Bytes reply(Body body) {
  return wire::pack_body<nodeapi::ReplyT>(std::move(body));
}

nodeapi::SandboxInfoT copy(const nodeapi::SandboxInfoT& from) {
  auto packed = wire::pack(from);
  return *wire::unpack<nodeapi::SandboxInfoT>(packed);
}

nodeapi::TemplateT base_template() {
  nodeapi::TemplateT base;
  base.name = "base";
  base.state = nodeapi::TemplateState::Ready;
  base.description = "Debian with python3";
  base.disk_bytes = 8ULL << 30;
  base.stored_bytes = 400ULL << 20;
  base.vcpus = 1;
  base.memory_bytes = 512ULL << 20;
  base.built_ms = 1'750'000'000'000;
  base.digest = std::string(64, 'a');
  return base;
}

}  // namespace

FakeNode::FakeNode(const async::Executor& executor, std::string socket_path, FakeSandboxes& sandboxes)
    : executor_(executor), path_(std::move(socket_path)), sandboxes_(sandboxes), changed_(executor) {
  templates.push_back(base_template());
  nodeapi::TemplateT recipe = base_template();
  recipe.name = "dev";
  recipe.state = nodeapi::TemplateState::Recipe;
  recipe.digest.clear();
  recipe.built_ms = 0;
  recipe.stored_bytes = 0;
  templates.push_back(recipe);
}

void FakeNode::start() {
  server_ = std::make_unique<rpc::Server>(executor_, *os::listen_unix(path_),
                                          [this](rpc::Call call) { return answer(std::move(call)); });
  server_->start();
}

async::Task<void> FakeNode::stop() {
  if (!server_) co_return;
  co_await server_->stop();
  server_.reset();
  watchers_.clear();
}

void FakeNode::release() {
  hold_creates = false;
  changed_.notify_all();
}

void FakeNode::end_sandbox(const std::string& id, const std::string& reason, const std::string& tail) {
  auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return;
  found->second->ended = true;
  found->second->changed.notify_all();
  sandboxes_.erase(found);
  nodeapi::EventT event;
  event.kind = nodeapi::EventKind::SandboxEnded;
  event.sandbox = id;
  event.reason = reason;
  event.detail = "the VMM ended";
  event.console_tail.assign(tail.begin(), tail.end());
  for (auto& watcher : watchers_) watcher->pending.push_back(event);
  changed_.notify_all();
}

void FakeNode::add_stray(const std::string& id) {
  auto sandbox = std::make_shared<FakeSandbox>(executor_);
  sandbox->info.sandbox = id;
  sandbox->info.session = "nosuchsession0000000";
  sandbox->info.state = nodeapi::SandboxState::Running;
  sandboxes_[id] = sandbox;
}

async::Task<void> FakeNode::create(rpc::Call& call, const nodeapi::CreateSandboxT& request) {
  ++creates;
  created_ids.push_back(request.sandbox);
  auto& slot = sandboxes_[request.sandbox];
  bool fresh = !slot;
  if (fresh) {
    slot = std::make_shared<FakeSandbox>(executor_);
    slot->info.sandbox = request.sandbox;
    slot->info.session = request.session;
    slot->info.tenant = request.tenant;
    slot->info.generation = request.generation;
    slot->info.template_name = request.template_name;
    slot->info.state = nodeapi::SandboxState::Starting;
    slot->info.backend = "fake";
    slot->info.acceleration = "none";
  }
  auto sandbox = slot;
  while (hold_creates && !sandbox->ended) co_await changed_.wait();
  if (sandbox->ended)
    co_return call.finish(make_error(Code::kAborted, "node.destroyed", "destroyed meanwhile"));
  if (fail_next_create) {
    Error error = *fail_next_create;
    fail_next_create.reset();
    sandboxes_.erase(request.sandbox);
    co_return call.finish(error);
  }
  sandbox->info.state = nodeapi::SandboxState::Running;
  sandbox->info.started_ms = 1'750'000'000'000;
  (co_await call.send_message(reply(copy(sandbox->info)))).ignore("test");
  call.finish({});
}

async::Task<void> FakeNode::watch(rpc::Call& call) {
  auto watcher = std::make_shared<Watcher>();
  nodeapi::EventT recovered;
  recovered.kind = nodeapi::EventKind::Recovered;
  recovered.adopted = recovered_adopted;
  recovered.destroyed = recovered_destroyed;
  watcher->pending.push_back(recovered);
  watchers_.push_back(watcher);
  for (;;) {
    while (!watcher->pending.empty()) {
      auto event = watcher->pending.front();
      watcher->pending.erase(watcher->pending.begin());
      if (!(co_await call.send_message(reply(event))).ok()) {
        watchers_.remove(watcher);
        co_return;
      }
    }
    co_await changed_.wait();
  }
}

async::Task<void> FakeNode::build(rpc::Call& call, const std::string& name) {
  auto found =
      std::find_if(templates.begin(), templates.end(), [&](const auto& one) { return one.name == name; });
  if (found == templates.end())
    co_return call.finish(make_error(Code::kNotFound, "node.no_such_recipe", "no recipe"));
  for (const char* line : {"unpacking", "configuring"}) {
    nodeapi::ProgressT progress;
    progress.line = line;
    (co_await call.send_message(reply(progress))).ignore("test");
  }
  if (fail_next_create) {
    Error error = *fail_next_create;
    fail_next_create.reset();
    co_return call.finish(error);
  }
  found->state = nodeapi::TemplateState::Ready;
  found->built_ms = 1'750'000'000'000;
  found->digest = std::string(64, 'b');
  (co_await call.send_message(reply(*found))).ignore("test");
  call.finish({});
}

async::Task<void> FakeNode::answer(rpc::Call call) {
  auto request = wire::unpack<nodeapi::RequestT>(call.request());
  if (!request.ok()) co_return call.finish(request.error());
  if (auto* wanted = request->body.AsCreateSandbox()) co_return co_await create(call, *wanted);
  if (request->body.AsWatch() != nullptr) co_return co_await watch(call);
  if (auto* wanted = request->body.AsBuildTemplate()) co_return co_await build(call, wanted->name);
  if (auto* unwanted = request->body.AsDestroySandbox()) {
    ++destroys;
    if (fail_destroys) co_return call.finish(*fail_destroys);
    nodeapi::DestroyedT destroyed;
    auto found = sandboxes_.find(unwanted->sandbox);
    destroyed.existed = found != sandboxes_.end();
    if (destroyed.existed) {
      found->second->ended = true;
      found->second->changed.notify_all();
      changed_.notify_all();
      sandboxes_.erase(found);
      std::string tail = "console of " + unwanted->sandbox + "\n";
      destroyed.console_tail.assign(tail.begin(), tail.end());
    }
    (co_await call.send_message(reply(std::move(destroyed)))).ignore("test");
  } else if (request->body.AsListSandboxes() != nullptr) {
    std::vector<Bytes> all;
    for (const auto& [id, sandbox] : sandboxes_) all.push_back(reply(copy(sandbox->info)));
    for (auto& one : all) (co_await call.send_message(std::move(one))).ignore("test");
  } else if (request->body.AsGetInfo() != nullptr) {
    nodeapi::InfoT info;
    info.node = "fakenode000000000001";
    info.version = "test";
    info.backend = "fake";
    info.acceleration = "none";
    info.cpus = 4;
    info.memory_bytes = 8ULL << 30;
    info.memory_committed_bytes = sandboxes_.size() * (512ULL << 20);
    info.disk_free_bytes = 100ULL << 30;
    info.sandboxes = static_cast<std::uint32_t>(sandboxes_.size());
    (co_await call.send_message(reply(info))).ignore("test");
  } else if (request->body.AsListTemplates() != nullptr) {
    for (const auto& one : templates) (co_await call.send_message(reply(one))).ignore("test");
  } else if (auto* removed = request->body.AsRemoveTemplate()) {
    auto used = [&](const auto& entry) { return entry.second->info.template_name == removed->name; };
    if (std::any_of(sandboxes_.begin(), sandboxes_.end(), used)) {
      co_return call.finish(
          make_error(Code::kFailedPrecondition, "node.template_in_use", "a sandbox uses the template"));
    }
    std::erase_if(templates, [&](const auto& one) { return one.name == removed->name; });
  } else {
    co_return call.finish(make_error(Code::kUnimplemented, "node.unknown_request", "unknown"));
  }
  call.finish({});
}

}  // namespace space::testkit
