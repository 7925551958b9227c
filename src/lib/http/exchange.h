// SPDX-License-Identifier: Apache-2.0
#pragma once
// One request and its answer, as a handler sees them.
//
// The request's body is pulled piece by piece and the answer is pushed piece by piece, so that neither side
// ever holds a whole body, and a peer that stands still stops the other. A handler gives exactly one answer:
// respond(), or begin() write()* finish(), or upgrade(). A handler that returns in the middle of a streamed
// answer makes the client see a broken transfer, never a complete one.
//
// Resource type; belongs to the server's loop; lives as long as its handler runs. Posture: hostile-network.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "lib/async/task.h"
#include "lib/base/bytes.h"
#include "lib/base/result.h"
#include "lib/http/headers.h"
#include "lib/http/target.h"
#include "lib/http/websocket.h"

namespace space::http {

namespace internal {
class Connection;
struct Incoming;
}  // namespace internal

struct Request {
  std::string method;  // as sent, upper case for the known ones
  std::string target;  // as sent
  Target parsed;
  Headers headers;
};

struct Response {
  unsigned status = 200;
  Headers headers;
  std::string body;
};

class Exchange {
 public:
  explicit Exchange(internal::Connection& connection, internal::Incoming& incoming);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange();

  [[nodiscard]] const Request& request() const;

  // Up to out.size() bytes of the body, decompressed when it came with Content-Encoding: gzip; 0 at its end.
  // Waits for the client at most the server's idle time for each piece, and for no total time. Errors:
  // http.client_gone, http.body_idle (the connection is closed then), http.malformed_body,
  // http.malformed_gzip, http.unsupported_encoding.
  async::Task<Result<std::size_t>> read_body(std::span<std::byte> out);
  // The whole body. Errors: http.body_too_large beyond `limit`, and those of read_body().
  async::Task<Result<std::string>> read_all(std::size_t limit);
  // Did the client announce a body that is not empty?
  [[nodiscard]] bool has_body() const;

  // The whole answer. For HEAD the body is counted, not sent. Errors: http.client_gone.
  async::Task<Result<void>> respond(Response response);

  // The head of a streamed answer; `response.body` is ignored. With a length exactly that many bytes must
  // follow.
  async::Task<Result<void>> begin(Response response, std::optional<std::uint64_t> length);
  // Returns once the bytes are with the kernel; so a slow client slows the writer down.
  // Errors: http.client_gone (also after the stall limit).
  async::Task<Result<void>> write(ByteView data);
  // The end of a streamed answer. Nothing that was begun is complete without it.
  async::Task<Result<void>> finish();
  [[nodiscard]] bool begun() const;

  // Returns when the client has closed or broken the connection. For answers that may be silent for long.
  async::Task<void> client_gone();

  [[nodiscard]] bool wants_websocket() const;
  // Answers with 101. Precondition: wants_websocket(). Errors: http.bad_upgrade (answered), http.client_gone.
  async::Task<Result<std::unique_ptr<WebSocket>>> upgrade();

 private:
  async::Task<Result<std::size_t>> read_plain(std::span<std::byte> out);

  internal::Connection& connection_;
  internal::Incoming& incoming_;
};

}  // namespace space::http
