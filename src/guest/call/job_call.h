// SPDX-License-Identifier: Apache-2.0
#pragma once
// A call whose work may block: steps on the pool, one at a time.

#include <atomic>
#include <functional>
#include <memory>

#include "guest/call/call.h"
#include "guest/call/services.h"

namespace space::guest {

class JobCall : public Call {
 protected:
  JobCall(CallHost& host, wire::StreamId stream, Services& services)
      : Call(host, stream), services_(services) {}

  // Runs `work` on a pool thread, then `done` on the loop; `done` is left out when the stream has gone
  // meanwhile. The call lives until both are over. Precondition: !busy().
  void run(std::function<void()> work, std::function<void()> done);
  [[nodiscard]] bool busy() const { return busy_; }
  // For work that looks: the stream has gone.
  [[nodiscard]] const std::atomic<bool>& stop_flag() const { return stop_; }

  // Frees what may take long to free (on the pool). Called once, after the last job, when the stream went
  // early.
  virtual std::function<void()> abandon() { return nullptr; }
  void on_detached() override;

  Services& services_;

 private:
  void clean_up();

  bool busy_ = false;
  std::atomic<bool> stop_{false};
};

// A single piece of work that gives a status and perhaps one message.
template <class Reply>
class OneShotCall final : public JobCall {
 public:
  using Work = std::function<Result<Reply>(const std::atomic<bool>& stop)>;
  OneShotCall(CallHost& host, wire::StreamId stream, Services& services, Work work)
      : JobCall(host, stream, services), work_(std::move(work)) {}

  void start() override {
    auto result = std::make_shared<Result<Reply>>();
    run([this, result] { *result = work_(stop_flag()); },
        [this, result] {
          if (!result->ok()) return finish(std::move(*result).error());
          send(std::move(*result).value());
          finish({});
        });
  }

 private:
  Work work_;
};

class StatusCall final : public JobCall {
 public:
  using Work = std::function<Result<void>(const std::atomic<bool>& stop)>;
  StatusCall(CallHost& host, wire::StreamId stream, Services& services, Work work)
      : JobCall(host, stream, services), work_(std::move(work)) {}

  void start() override {
    auto result = std::make_shared<Result<void>>();
    run([this, result] { *result = work_(stop_flag()); }, [this, result] { finish(std::move(*result)); });
  }

 private:
  Work work_;
};

}  // namespace space::guest
