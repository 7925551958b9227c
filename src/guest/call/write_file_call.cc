// SPDX-License-Identifier: Apache-2.0
#include "guest/call/write_file_call.h"

#include <limits>

#include "guest/file/path.h"

namespace space::guest {

void WriteFileCall::start() {
  if (auto good = check_path(request_.path); !good.ok()) return fail(std::move(good).error());
  if (request_.offset > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
      (request_.offset != 0 && !request_.in_place)) {
    return fail(
        Error{Code::kInvalidArgument, "guest.malformed_offset", "an offset needs in_place", "offset"});
  }
  auto opened = std::make_shared<Result<void>>();
  run([this, opened] { *opened = writer_->open(request_); },
      [this, opened] {
        if (!opened->ok()) return fail(std::move(*opened).error());
        opened_ = true;
        step();
      });
}

void WriteFileCall::on_data(std::uint8_t channel, ByteView data) {
  if (channel != 0 || finishing()) return consumed(data.size());
  waiting_.insert(waiting_.end(), data.begin(), data.end());
  step();
}

void WriteFileCall::on_host_end() {
  host_ended_ = true;
  step();
}

void WriteFileCall::step() {
  if (busy() || !opened_ || finishing()) return;
  if (!waiting_.empty()) {
    auto bytes = std::make_shared<Bytes>(std::exchange(waiting_, {}));
    auto written = std::make_shared<Result<void>>();
    run([this, bytes, written] { *written = writer_->write(*bytes); },
        [this, bytes, written] {
          consumed(bytes->size());
          if (!written->ok()) return fail(std::move(*written).error());
          step();
        });
    return;
  }
  if (!host_ended_) return;
  auto info = std::make_shared<Result<guestapi::FileInfoT>>();
  run([this, info] { *info = writer_->commit(); },
      [this, info] {
        if (!info->ok()) return fail(std::move(*info).error());
        send(std::move(*info).value());
        finish({});
      });
}

void WriteFileCall::fail(Error error) {
  consumed(waiting_.size());
  Bytes().swap(waiting_);
  if (auto work = abandon()) services_.pool.submit(std::move(work), [] {});
  finish(std::move(error));
}

std::function<void()> WriteFileCall::abandon() {
  if (!writer_) return nullptr;
  // The last owner frees the temporary file, on the pool.
  return [writer = std::exchange(writer_, nullptr)]() mutable { writer.reset(); };
}

}  // namespace space::guest
