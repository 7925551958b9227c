// SPDX-License-Identifier: Apache-2.0
#pragma once
// The node's side of api/link.fbs: hands sandboxes' sockets to space-link and gets typed results back.
// Everything that a guest or a VMM says passes through there, never through here.
//
// Resource type; one loop. Errors of all: rpc.unreachable, rpc.connection_lost, rpc.deadline (retryable, link
// may be restarting) and those of link.

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "lib/async/task_scope.h"
#include "lib/base/id.h"
#include "lib/obs/log.h"
#include "lib/os/fd.h"
#include "lib/rpc/client.h"

namespace space::node {

struct GuestReady {
  std::string version;
  std::string kernel;
  std::uint64_t kernel_boot_us = 0;
};

// What link saw of a sandbox.
enum class LinkEventKind : std::uint8_t {
  kChannelClosed,
  kProtocolError,
  kGuestShutdown,
  kGuestPanicked,
  kBlockIoError,
  kQmpClosed
};
struct LinkEvent {
  SandboxId sandbox;
  LinkEventKind kind = LinkEventKind::kChannelClosed;
  std::string detail;  // escaped by link
};

class LinkClient {
 public:
  using OnEvent = std::function<void(const LinkEvent&)>;
  using OnConnected = std::function<void()>;

  LinkClient(const async::Executor& executor, os::Random& random, const obs::Log& log,
             std::string socket_path);

  // Follows events until stop(), reconnecting for ever. `on_connected` runs each time a connection has been
  // made, before the first event on it: link knows of nothing then that was not attached since.
  void watch(OnEvent on_event, OnConnected on_connected);

  // `sockets` in the order of slot::kSocketNames.
  async::Task<Result<void>> attach(SandboxId sandbox, std::uint64_t generation, std::vector<os::Fd> sockets,
                                   std::chrono::milliseconds limit);
  async::Task<Result<GuestReady>> wait_ready(SandboxId sandbox, std::chrono::milliseconds limit);
  // The end of the console's output; guest bytes as they came. Errors: also link.no_such_sandbox.
  async::Task<Result<std::string>> detach(SandboxId sandbox);
  // Asks the machine to shut its guest down in order. Whether the guest obeys is seen elsewhere.
  async::Task<Result<void>> power_down(SandboxId sandbox);

  async::Task<void> stop();

 private:
  async::Task<void> follow();
  async::Task<Result<void>> follow_once();

  const obs::Log& log_;
  rpc::Client client_;
  OnEvent on_event_;
  OnConnected on_connected_;
  async::TaskScope scope_;
};

}  // namespace space::node
