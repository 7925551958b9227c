// SPDX-License-Identifier: Apache-2.0
#pragma once
// One connection to one running sandbox: its guest channel, its VMM's machine socket and its console.
//
// Life: made with the three sockets, start(), then used until stop(). The channel can fail alone (the daemon
// broke the protocol, the VMM closed it): calls fail then with failure(), an event is raised once, and the
// rest stays usable, so that the node can still ask the VMM to quit. Only a new attachment brings the channel
// back.
//
// Shared ownership: calls that were under way when an attachment was replaced hold it until they have seen
// the error. stop() must have completed before the last holder lets go once start() was called.
//
// Resource type; one loop. Posture: hostile-guest. Errors of calls: link.guest_not_answering,
// link.protocol_error, link.sandbox_gone, link.too_many_calls.

#include <chrono>
#include <memory>
#include <optional>

#include "lib/async/event.h"
#include "lib/async/task_scope.h"
#include "lib/base/id.h"
#include "lib/obs/log.h"
#include "lib/os/fd.h"
#include "lib/os/random.h"
#include "lib/rpc/connection.h"
#include "link/console.h"
#include "link/event_hub.h"
#include "link/qmp_client.h"

namespace space::link {

inline constexpr std::size_t kMaxCallsPerSandbox = 64;

class Attachment {
 public:
  struct Sockets {
    os::Fd channel;
    os::Fd qmp;
    os::Fd console;
  };

  // All of the references outlive the attachment.
  Attachment(const async::Executor& executor, os::Random& random, EventHub& hub, const obs::Log& log,
             SandboxId sandbox, Generation generation, Sockets sockets, std::shared_ptr<Console> console);
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  // Begins to use the sockets: sends the resync marker, reads console and QMP. Idempotent; nothing after
  // stop().
  void start();

  // Waits for the echo of the marker. Errors: link.guest_not_answering; failure().
  async::Task<Result<void>> wait_attached(std::chrono::steady_clock::time_point deadline);
  // A call to the daemon. It counts against the limit of calls as long as the Slot lives.
  class Slot {
   public:
    explicit Slot(Attachment& attachment) : attachment_(&attachment) { ++attachment_->calls_; }
    Slot(Slot&& other) noexcept : attachment_(std::exchange(other.attachment_, nullptr)) {}
    Slot& operator=(Slot&&) = delete;
    ~Slot() {
      if (attachment_ != nullptr) --attachment_->calls_;
    }

   private:
    Attachment* attachment_;
  };
  // Errors: link.too_many_calls; failure().
  Result<Slot> reserve();
  // Precondition: attached. Errors: link.guest_not_answering when the daemon has left too many requests
  // unread.
  Result<rpc::Call> open(Bytes request);

  // The daemon broke the rules: the channel is closed, all its calls end with link.protocol_error.
  void fail_protocol(const Error& violation);
  // What a failed operation of the channel means to the caller of a relayed call.
  [[nodiscard]] Error explain(const Error& from_channel) const;

  [[nodiscard]] const SandboxId& sandbox() const { return sandbox_; }
  [[nodiscard]] Generation generation() const { return generation_; }
  QmpClient& qmp() { return qmp_; }
  [[nodiscard]] std::shared_ptr<Console> console() const { return console_; }

  // Closes everything and waits; calls end with `why`. Idempotent, also concurrently.
  async::Task<void> stop(Error why);

 private:
  async::Task<void> watch_channel();
  void close_channel(Error why);

  async::Executor executor_;
  os::Random& random_;
  EventHub& hub_;
  const obs::Log& log_;
  SandboxId sandbox_;
  Generation generation_;
  os::Fd channel_socket_;
  std::shared_ptr<Console> console_;
  QmpClient qmp_;
  ConsoleReader console_reader_;
  std::unique_ptr<rpc::Connection> channel_;
  std::optional<Error> failure_;  // why the channel is closed
  bool started_ = false;
  bool stopping_ = false;
  std::size_t calls_ = 0;
  async::Event changed_;
  async::TaskScope scope_;
};

}  // namespace space::link
