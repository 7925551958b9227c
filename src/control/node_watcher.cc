// SPDX-License-Identifier: Apache-2.0
#include "control/node_watcher.h"

#include "lib/async/task.h"

namespace space::control {
namespace {
constexpr auto kRetryEvery = std::chrono::milliseconds(200);
}

async::Task<void> NodeWatcher::run() {
  for (;;) {
    auto outcome = co_await listen();
    if (connected_)
      log_.warning("node_lost", {{"error", outcome.ok() ? "the watch ended" : outcome.error().describe()}});
    connected_ = false;
    co_await async::sleep_for(kRetryEvery);
  }
}

async::Task<Result<void>> NodeWatcher::listen() {
  SPACE_CO_TRY(rpc::Call call, co_await node_.watch());
  for (;;) {
    SPACE_CO_TRY(rpc::CallEvent received, co_await call.next());
    if (auto* end = std::get_if<rpc::End>(&received)) co_return end->status;
    auto* message = std::get_if<rpc::Message>(&received);
    if (message == nullptr) continue;
    SPACE_CO_TRY(auto event, upstream::NodeClient::read_event(message->bytes));
    if (event.kind == nodeapi::EventKind::SandboxEnded) {
      co_await engine_.on_sandbox_ended(std::move(event));
      continue;
    }
    note_recovery(event);
    SPACE_CO_TRY(info_, co_await node_.info());
    SPACE_CO_CHECK_OK(co_await engine_.reconcile());
    if (!connected_) log_.info("node_connected", {{"node", info_->node}, {"backend", info_->backend}});
    connected_ = true;
    reconciled_ = true;
  }
}

void NodeWatcher::note_recovery(const nodeapi::EventT& event) {
  // A reconnection to the same node process repeats its report; the time stays that of the first hearing.
  if (recovery_ && recovery_->adopted == event.adopted && recovery_->destroyed == event.destroyed) return;
  recovery_ = Recovery{clock_.wall(), event.adopted, event.destroyed};
  log_.info("node_recovered", {{"adopted", std::to_string(event.adopted.size())},
                               {"destroyed", std::to_string(event.destroyed.size())}});
}

}  // namespace space::control
