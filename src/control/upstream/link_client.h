// SPDX-License-Identifier: Apache-2.0
#pragma once
// The guests as seen through space-link (api/link.fbs, api/guest.fbs). Control packs requests and reads typed
// replies; link has verified them already, and they are verified here once more.
//
// A sandbox that link does not know yet (link or node is restarting) is waited for a few seconds; then the
// call fails with control.guest_unreachable, retryable. A request that may have reached the guest is never
// sent twice.
//
// Resource type; one loop. Posture: hostile-guest (values in replies come from guests).

#include <chrono>
#include <memory>
#include <variant>
#include <vector>

#include "api/guest_generated.h"
#include "lib/async/task.h"
#include "lib/base/id.h"
#include "lib/base/result.h"
#include "lib/rpc/client.h"

namespace space::control::upstream {

using GuestEvent = std::variant<guestapi::ReplyT, rpc::Data, rpc::End>;

// A call to a guest's daemon. Handle type, as rpc::Call.
class GuestCall {
 public:
  GuestCall() = default;
  explicit GuestCall(rpc::Call call) : call_(std::move(call)) {}

  // After an End the call is over. Errors: those of rpc::Call::next, wire.malformed_message.
  async::Task<Result<GuestEvent>> next();
  // The same, but not longer than `limit`: control.guest_not_answering.
  async::Task<Result<GuestEvent>> next_within(std::chrono::milliseconds limit);
  async::Task<Result<void>> send_data(ByteView data) { return call_.send_data(0, data); }
  async::Task<Result<void>> send_control(guestapi::ControlT control);
  void end() { call_.end(); }
  // Gives the call up: commands go on in the guest, a file being written is left as it was.
  void reset() { call_.reset(); }

 private:
  friend class LinkClient;
  rpc::Call call_;
};

// A call together with the guest's first answer to it.
struct Opened {
  GuestCall call;
  GuestEvent first;
};

struct LinkOptions {
  std::chrono::milliseconds patience = std::chrono::seconds(5);  // for link or an attachment that is away
  std::size_t connections = 4;  // calls are spread, since one connection carries at most 256
};

class LinkClient {
 public:
  LinkClient(const async::Executor& executor, os::Random& random, const rpc::Client::Connect& connect,
             LinkOptions options = {});

  // Starts a call and waits for the guest's first answer. When that is a failed End, its error is returned.
  // Errors: control.guest_unreachable, control.guest_not_answering, those of link and of the guest.
  async::Task<Result<Opened>> open(SandboxId sandbox, guestapi::RequestT request,
                                   std::chrono::milliseconds answer_limit = std::chrono::seconds(10));
  // Starts a call whose first answer comes only at its end (an upload). Ask hello() before, to know that
  // somebody listens.
  async::Task<Result<GuestCall>> start(SandboxId sandbox, const guestapi::RequestT& request,
                                       std::chrono::milliseconds answer_limit);
  async::Task<Result<void>> hello(SandboxId sandbox);
  // For requests that are answered by at most one message and the end.
  async::Task<Result<guestapi::ReplyT>> ask(
      SandboxId sandbox, guestapi::RequestT request,
      std::chrono::milliseconds answer_limit = std::chrono::seconds(10));
  // The console of a live sandbox: DATA of channel 1, then End.
  async::Task<Result<rpc::Call>> console(SandboxId sandbox, bool follow);
  // Does link answer at all? The answer may be a moment old.
  async::Task<bool> alive(std::chrono::milliseconds limit);

  async::Task<void> stop();

 private:
  rpc::Client& next_client();

  LinkOptions options_;
  std::vector<std::unique_ptr<rpc::Client>> clients_;
  std::size_t turn_ = 0;
  std::chrono::steady_clock::time_point asked_at_{};
  bool was_alive_ = false;
};

}  // namespace space::control::upstream
