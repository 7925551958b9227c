// SPDX-License-Identifier: Apache-2.0
#pragma once
// ReadFile: FileInfo, then the bytes, read ahead of what the windows take by at most two chunks.

#include "guest/call/job_call.h"
#include "lib/os/fd.h"

namespace space::guest {

class ReadFileCall final : public JobCall {
 public:
  static constexpr std::size_t kChunkBytes = 128u << 10;

  ReadFileCall(CallHost& host, wire::StreamId stream, Services& services, guestapi::ReadFileT request)
      : JobCall(host, stream, services), request_(std::move(request)) {}
  void start() override;

 protected:
  bool pump_more() override;

 private:
  struct Chunk {
    Bytes bytes;
    Result<void> outcome;
    bool at_end = false;
  };
  Result<guestapi::FileInfoT> open();
  Chunk read();
  void read_ahead();

  guestapi::ReadFileT request_;
  os::Fd fd_;
  std::uint64_t left_ = 0;  // bytes still to be read
  Bytes ready_;             // being sent, from `sent_` on
  std::size_t sent_ = 0;
  Bytes next_;
  bool at_end_ = false;
  Result<void> outcome_;
};

}  // namespace space::guest
