// SPDX-License-Identifier: Apache-2.0
#include "link/sandboxes.h"

namespace space::link {
namespace {

Error gone_error(const char* why) {
  return make_error(Code::kUnavailable, "link.sandbox_gone", why);
}

}  // namespace

Sandboxes::Sandboxes(const async::Executor& executor, os::Random& random, EventHub& hub, const obs::Log& log)
    : executor_(executor), random_(random), hub_(hub), log_(log), changed_(executor), scope_(executor) {}

Result<std::shared_ptr<Attachment>> Sandboxes::attach(const SandboxId& sandbox, Generation generation,
                                                      Attachment::Sockets sockets) {
  if (stopping_) return make_error(Code::kUnavailable, "link.stopping", "link is stopping");
  auto it = attachments_.find(sandbox);
  std::shared_ptr<Attachment> old = it == attachments_.end() ? nullptr : it->second;
  if (!old && attachments_.size() >= kMaxSandboxes) {
    return make_error(Code::kResourceExhausted, "link.too_many_sandboxes",
                      "link serves at most 1024 sandboxes");
  }
  if (old && old->generation() > generation) {
    return make_error(Code::kFailedPrecondition, "link.stale_generation",
                      "a newer generation of the sandbox is attached");
  }
  auto console = old ? old->console() : std::make_shared<Console>(executor_);
  auto fresh = std::make_shared<Attachment>(executor_, random_, hub_, log_, sandbox, generation,
                                            std::move(sockets), std::move(console));
  attachments_[sandbox] = fresh;
  if (old) {
    scope_.spawn(replace(std::move(old), fresh));
  } else {
    fresh->start();
  }
  return fresh;
}

async::Task<void> Sandboxes::replace(std::shared_ptr<Attachment> old, std::shared_ptr<Attachment> fresh) {
  co_await old->stop(gone_error("the sandbox was attached anew; ask again"));
  fresh->start();
}

Result<std::shared_ptr<Attachment>> Sandboxes::find(const SandboxId& sandbox) const {
  auto it = attachments_.find(sandbox);
  if (it == attachments_.end())
    return make_error(Code::kNotFound, "link.no_such_sandbox",
                      "no sandbox " + sandbox.str() + " is attached");
  return it->second;
}

async::Task<void> Sandboxes::detach(std::shared_ptr<Attachment> attachment) {
  auto it = attachments_.find(attachment->sandbox());
  if (it != attachments_.end() && it->second == attachment) {
    attachments_.erase(it);
    // Nobody else will write to this console.
    auto done = std::make_shared<bool>(false);
    scope_.spawn(retire(attachment, done));
    while (!*done) co_await changed_.wait();
  } else {
    co_await attachment->stop(gone_error("the sandbox was detached"));
  }
}

async::Task<void> Sandboxes::retire(std::shared_ptr<Attachment> attachment, std::shared_ptr<bool> done) {
  co_await attachment->stop(gone_error("the sandbox was detached"));
  attachment->console()->finish();
  *done = true;
  changed_.notify_all();
}

async::Task<void> Sandboxes::stop() {
  stopping_ = true;
  auto all = std::move(attachments_);
  attachments_.clear();
  for (auto& [sandbox, attachment] : all) {
    co_await attachment->stop(gone_error("link is stopping"));
    attachment->console()->finish();
  }
  co_await scope_.drain();
  co_await scope_.stop();
}

}  // namespace space::link
