// SPDX-License-Identifier: Apache-2.0
#pragma once
// One call on a connection, seen from either side.
//
// Events come in order from next(); popping one gives its window back to the peer, so a caller that stops
// popping stops the peer. Sending waits for window. Nothing is buffered beyond a window in each direction.
//
// Handle type: move only. Destroying one that has not ended resets the stream. One loop. A Call may outlive
// its connection; then everything fails with rpc.connection_lost.

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "lib/async/task.h"
#include "lib/base/bytes.h"
#include "lib/base/result.h"
#include "lib/os/fd.h"

namespace space::rpc {

struct Message {
  Bytes bytes;
};
struct Data {
  std::uint8_t channel = 0;
  Bytes bytes;
};
// The peer has finished. On the asking side `status` is how the call went; on the answering side it is always
// ok.
struct End {
  Result<void> status;
};
using CallEvent = std::variant<Message, Data, End>;

namespace internal {
struct Core;
struct Stream;
}  // namespace internal

class Call {
 public:
  Call();
  Call(std::shared_ptr<internal::Core> core, std::shared_ptr<internal::Stream> stream);
  Call(Call&&) noexcept;
  Call& operator=(Call&&) noexcept;
  ~Call();

  // Answering side: what was asked, and the descriptors that came with it. Descriptors arrive in the order of
  // the calls that carry them: take exactly the expected number before the first suspension. Errors:
  // rpc.missing_descriptors.
  [[nodiscard]] const Bytes& request() const;
  Result<std::vector<os::Fd>> take_fds(std::size_t count);

  // Errors of all: rpc.connection_lost, rpc.reset (the peer gave the call up), wire.message_too_large.
  async::Task<Result<void>> send_message(Bytes message);
  // Returns when all of `data` is on its way; `data` must stay valid until then.
  async::Task<Result<void>> send_data(std::uint8_t channel, ByteView data);
  // The next event. After End the call is over: asking again is an error (rpc.call_over).
  async::Task<Result<CallEvent>> next();
  // Waits until the call can't go on: the peer gave it up or the connection broke, also after End; never for
  // a call that just goes well. Returns why.
  async::Task<Error> gone();
  // Is there an event that next() would give without waiting?
  [[nodiscard]] bool ready() const;

  // Asking side: no more messages or data from here.
  void end();
  // Answering side: the call is over with this outcome.
  void finish(const Result<void>& status);
  // Gives the call up; the peer sees a reset.
  void reset();

 private:
  std::shared_ptr<internal::Core> core_;
  std::shared_ptr<internal::Stream> stream_;
};

// Reads events until End and returns the last message; empty when there was none.
// Errors: the status of the call; those of next().
async::Task<Result<Bytes>> finish_unary(Call& call);

}  // namespace space::rpc
