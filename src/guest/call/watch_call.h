// SPDX-License-Identifier: Apache-2.0
#pragma once
// WatchFiles: events until the host resets or ends the call. A slow host costs nothing but the kernel's
// queue, which reports when it overflowed.

#include "guest/call/job_call.h"
#include "guest/file/watcher.h"

namespace space::guest {

class WatchCall final : public JobCall {
 public:
  WatchCall(CallHost& host, wire::StreamId stream, Services& services, guestapi::WatchFilesT request)
      : JobCall(host, stream, services), request_(std::move(request)) {}
  ~WatchCall() override { stop_watching(); }
  void start() override;
  void on_host_end() override;

 protected:
  bool pump_more() override;
  void on_detached() override;

 private:
  void wait();
  void stop_watching();

  guestapi::WatchFilesT request_;
  Watcher watcher_;
  bool ready_ = false;    // open() is done
  bool waiting_ = false;  // for inotify
};

}  // namespace space::guest
