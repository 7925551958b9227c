// SPDX-License-Identifier: Apache-2.0
#pragma once
// The server's end of a WebSocket. Messages, not frames; back-pressure both ways: send returns once the
// message is with the kernel, and nothing is read but when receive() asks.
//
// Several coroutines may send (their messages don't mix); one may receive. The server pings; a client that
// takes no byte for the server's stall limit while something waits for it is disconnected.
//
// Resource type; one loop; lives within its Exchange. Destroying it without close() breaks the connection.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/async/task.h"
#include "lib/base/bytes.h"
#include "lib/base/result.h"

namespace space::http {

namespace internal {
class Connection;
struct Incoming;
struct WebSocketState;
}  // namespace internal

// Larger messages from a client end the connection (close code 1009).
inline constexpr std::size_t kMaxWebSocketMessage = 1u << 20;

struct WebSocketMessage {
  enum class Kind : std::uint8_t { kText, kBinary, kClosed };
  Kind kind = Kind::kClosed;
  std::string data;  // text is valid UTF-8
};

class WebSocket {
 public:
  explicit WebSocket(std::shared_ptr<internal::WebSocketState> state);
  ~WebSocket();
  WebSocket(const WebSocket&) = delete;
  WebSocket& operator=(const WebSocket&) = delete;

  // kClosed when the client closed in an orderly way. Errors: http.client_gone.
  async::Task<Result<WebSocketMessage>> receive();
  // Errors: http.client_gone.
  async::Task<Result<void>> send_text(std::string_view text);
  // One message made of both parts, which must stay valid until it is sent.
  async::Task<Result<void>> send_binary(ByteView head, ByteView body);

  enum class CloseCode : std::uint16_t {
    kNormal = 1000,
    kGoingAway = 1001,
    kProtocolError = 1002,
    kInternalError = 1011
  };
  // Sends the close message and waits for the client's, as long as the client still takes what was sent
  // before.
  async::Task<void> close(CloseCode code);
  // Breaks the connection; every wait here ends with http.client_gone.
  void abort();

 private:
  std::shared_ptr<internal::WebSocketState> state_;
};

}  // namespace space::http
