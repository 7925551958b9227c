// SPDX-License-Identifier: Apache-2.0
#pragma once
// WriteFile: bytes are written by the pool while the next ones arrive; the stream's window bounds what waits.

#include "guest/call/job_call.h"
#include "guest/file/file_writer.h"

namespace space::guest {

class WriteFileCall final : public JobCall {
 public:
  WriteFileCall(CallHost& host, wire::StreamId stream, Services& services, guestapi::WriteFileT request)
      : JobCall(host, stream, services),
        request_(std::move(request)),
        writer_(std::make_shared<FileWriter>()) {}
  void start() override;
  void on_data(std::uint8_t channel, ByteView data) override;
  void on_host_end() override;

 protected:
  std::function<void()> abandon() override;

 private:
  void step();
  void fail(Error error);

  guestapi::WriteFileT request_;
  std::shared_ptr<FileWriter> writer_;  // shared with the job that throws it away
  Bytes waiting_;
  bool opened_ = false;
  bool host_ended_ = false;
};

}  // namespace space::guest
