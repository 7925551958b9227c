// SPDX-License-Identifier: Apache-2.0
#pragma once
// The sandboxes that node has attached, by id, and the replacing and removing of attachments.
//
// Attachments are stopped in a scope of this object, not of the caller: a caller that is cancelled (its
// connection broke) leaves no half-stopped one behind. Resource type; one loop. Posture: internal.

#include <map>
#include <memory>

#include "lib/async/task_scope.h"
#include "lib/base/id.h"
#include "link/attachment.h"

namespace space::link {

inline constexpr std::size_t kMaxSandboxes = 1024;

class Sandboxes {
 public:
  // The references outlive this object.
  Sandboxes(const async::Executor& executor, os::Random& random, EventHub& hub, const obs::Log& log);

  // Puts a new attachment in the place of an older one of the same sandbox, whose sockets are closed before
  // the new ones are used: a VMM serves one client a socket at a time. The console's text is kept. Errors:
  // link.too_many_sandboxes; link.stale_generation when a newer incarnation is attached.
  Result<std::shared_ptr<Attachment>> attach(const SandboxId& sandbox, Generation generation,
                                             Attachment::Sockets sockets);

  // Errors: link.no_such_sandbox.
  [[nodiscard]] Result<std::shared_ptr<Attachment>> find(const SandboxId& sandbox) const;

  // Stops and forgets the attachment, if it is still the sandbox's: calls end with link.sandbox_gone,
  // followers of the console come to its end. Returns when everything is closed and the last bytes of the
  // console are read.
  async::Task<void> detach(std::shared_ptr<Attachment> attachment);

  [[nodiscard]] std::size_t size() const { return attachments_.size(); }
  // Refuses further attachments and ends all.
  async::Task<void> stop();

 private:
  async::Task<void> replace(std::shared_ptr<Attachment> old, std::shared_ptr<Attachment> fresh);
  async::Task<void> retire(std::shared_ptr<Attachment> attachment, std::shared_ptr<bool> done);

  async::Executor executor_;
  os::Random& random_;
  EventHub& hub_;
  const obs::Log& log_;
  std::map<SandboxId, std::shared_ptr<Attachment>> attachments_;
  bool stopping_ = false;
  async::Event changed_;
  async::TaskScope scope_;
};

}  // namespace space::link
