// SPDX-License-Identifier: Apache-2.0
#pragma once
// An HTTP/1.1 client for the platform's own API: whole messages, streamed bodies in constant memory,
// WebSockets.
//
// Every body must be framed (Content-Length or chunked), so that a stream that broke never looks like one
// that ended. A server that answers before an upload is complete is heard: the upload stops, its answer is
// the result. Statuses are results, not errors: a 404 is a Response. Errors (all but the first two are
// retryable):
//   http.bad_request          the caller gave a malformed method, target or header
//   http.too_large            the body of a whole answer exceeds Options::max_body_bytes
//   http.connection_refused   nothing listens there
//   http.unreachable          no such host, no route, or no answer to the connect in time
//   http.broken_stream        the connection ended, or the answer wasn't HTTP, in the middle
//   and whatever a BodySink or BodySource returns.
//
// Resource type; one loop; one call at a time on one Client (WebSockets live on by themselves). Not here:
// TLS, proxies, redirects, cookies. Posture: hostile-network.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/async/task.h"
#include "lib/base/bytes.h"
#include "lib/base/result.h"
#include "lib/http/client/url.h"
#include "lib/http/client/websocket.h"

namespace space::http::client {

struct Header {
  std::string name;
  std::string value;
};

struct Request {
  std::string method = "GET";
  std::string target;  // path and query, encoded; the endpoint's prefix is put in front
  std::vector<Header> headers;
  std::string body;  // for send(); others leave it empty
};

struct Response {
  unsigned status = 0;
  std::vector<Header> headers;
  std::optional<std::uint64_t> content_length;
  std::string body;  // empty when the body went to a sink

  [[nodiscard]] bool ok() const { return status >= 200 && status < 300; }
  // The first header of that name (compared without case), or empty.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

// Takes the body of a successful download in order.
class BodySink {
 public:
  virtual ~BodySink() = default;
  // Once, before the first byte.
  virtual void head(const Response& response) { (void)response; }
  // `data` is valid until the task is done. An error ends the download with that error.
  virtual async::Task<Result<void>> write(ByteView data) = 0;
};

// Gives the body of an upload.
class BodySource {
 public:
  virtual ~BodySource() = default;
  // Fills a prefix of `out` and returns its length; 0 at the end. An error breaks the request off unfinished,
  // so that the server can't take it for complete.
  virtual async::Task<Result<std::size_t>> read(std::span<std::byte> out) = 0;
};

struct Options {
  std::chrono::milliseconds connect_timeout{10'000};
  std::size_t max_body_bytes = 16u << 20;  // of an answer that is kept whole
  std::vector<Header> headers;             // sent with every request: authorization, user agent
};

// A server's answer to an upgrade: a WebSocket, or the response that declined it.
struct Upgrade {
  std::unique_ptr<WebSocket> socket;
  Response declined;
};

class Connection;

class Client {
 public:
  Client(async::Executor executor, Endpoint endpoint, Options options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // A request and its answer, both whole.
  async::Task<Result<Response>> send(Request request);
  // A 2xx body goes to `sink`, any other into Response::body.
  async::Task<Result<Response>> download(Request request, BodySink& sink);
  // Sends `source` as the body: with Content-Length when `size` is given (a source that ends earlier or gives
  // more is http.bad_request), chunked otherwise.
  async::Task<Result<Response>> upload(Request request, BodySource& source,
                                       std::optional<std::uint64_t> size);
  // Opens a WebSocket on a connection of its own.
  async::Task<Result<Upgrade>> upgrade(std::string target);

  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }

 private:
  async::Task<Result<std::unique_ptr<Connection>>> connection();
  [[nodiscard]] Result<std::string> head_of(const Request& request, std::string_view framing) const;

  async::Executor executor_;
  Endpoint endpoint_;
  Options options_;
  std::unique_ptr<Connection> idle_;  // kept open between calls
};

}  // namespace space::http::client
