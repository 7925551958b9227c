// SPDX-License-Identifier: Apache-2.0
#include "guest/call/watch_call.h"

#include "guest/file/path.h"

namespace space::guest {

void WatchCall::start() {
  auto opened = std::make_shared<Result<void>>();
  run(
      [this, opened] {
        *opened = check_path(request_.path);
        if (opened->ok()) *opened = watcher_.open(request_.path, request_.recursive);
      },
      [this, opened] {
        if (!opened->ok()) return finish(std::move(*opened).error());
        ready_ = true;
        send(guestapi::WatchingT{});
      });
}

// Reached when everything queued has been sent.
bool WatchCall::pump_more() {
  if (ready_ && !busy() && !finishing()) wait();
  return false;
}

void WatchCall::wait() {
  if (waiting_) return;
  waiting_ = true;
  services_.loop.watch(watcher_.fd(), EPOLLIN, [this](std::uint32_t) {
    stop_watching();
    auto events = std::make_shared<std::vector<guestapi::WatchEventT>>();
    run([this, events] { *events = watcher_.read(); },
        [this, events] {
          for (auto& event : *events) send(std::move(event));
          want_pump();
        });
  });
}

void WatchCall::stop_watching() {
  if (!waiting_) return;
  waiting_ = false;
  services_.loop.unwatch(watcher_.fd());
}

void WatchCall::on_host_end() {
  stop_watching();
  finish({});
}

void WatchCall::on_detached() {
  stop_watching();
  JobCall::on_detached();
}

}  // namespace space::guest
