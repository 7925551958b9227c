// SPDX-License-Identifier: Apache-2.0
#pragma once
// ListDirectory: one page at a time, the next read when the last has been sent.

#include "guest/call/job_call.h"
#include "guest/file/directory.h"

namespace space::guest {

class ListDirectoryCall final : public JobCall {
 public:
  ListDirectoryCall(CallHost& host, wire::StreamId stream, Services& services,
                    guestapi::ListDirectoryT request)
      : JobCall(host, stream, services), request_(std::move(request)) {}
  void start() override { read_page(); }

 protected:
  bool pump_more() override;

 private:
  void read_page();

  guestapi::ListDirectoryT request_;
  DirectoryReader reader_;
  bool opened_ = false;
  bool at_end_ = false;
};

}  // namespace space::guest
