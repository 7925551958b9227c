// SPDX-License-Identifier: Apache-2.0
#include "lib/http/client/client.h"

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include "lib/async/event.h"
#include "lib/http/client/internal/connection.h"
#include "lib/http/client/internal/websocket_state.h"

namespace space::http::client {
namespace {

using async::Task;
constexpr std::size_t kUploadChunk = 64u << 10;
// How long a server whose connection no longer takes bytes may need to say why.
constexpr std::chrono::seconds kLastWords{5};

Error bad_request(const std::string& what) {
  return make_error(Code::kInvalidArgument, "http.bad_request", what);
}

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.';
  });
}
bool is_target(std::string_view text) {
  return text.starts_with('/') &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f && c != '#'; });
}
bool is_value(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c == '\t' || static_cast<unsigned char>(c) >= 0x20; }) &&
         text.find('\x7f') == std::string_view::npos;
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string chunk_head(std::size_t size) {
  char text[24];
  int length = std::snprintf(text, sizeof text, "%zx\r\n", size);
  return {text, static_cast<std::size_t>(length)};
}

// Writes the body of an upload. Never the winner of the race against the reader of the answer, except with an
// error of the source: the answer is what counts, also when the server stopped taking bytes.
class Uploader {
 public:
  Uploader(Connection& connection, BodySource& source, std::optional<std::uint64_t> size)
      : connection_(connection), source_(source), size_(size) {}

  Task<Result<Response>> run(std::string head) {
    auto sent = co_await connection_.write(as_bytes(head));
    if (sent.ok()) sent = co_await body();
    if (!sent.ok() && sent.error().reason != "http.broken_stream") co_return std::move(sent).error();
    if (sent.ok()) {
      for (;;) co_await async::sleep_for(std::chrono::hours(1));  // until the reader ends the race
    }
    co_await async::sleep_for(kLastWords);
    co_return std::move(sent).error();
  }

 private:
  Task<Result<void>> body() {
    std::vector<std::byte> chunk(kUploadChunk);
    std::uint64_t left = size_.value_or(0);
    for (;;) {
      SPACE_CO_TRY(std::size_t got, co_await source_.read(chunk));
      ByteView data(chunk.data(), got);
      if (size_) {
        if (got > left) co_return bad_request("the file grew while it was sent");
        left -= got;
        if (got == 0 && left != 0) co_return bad_request("the file became shorter while it was sent");
        if (got == 0) co_return Result<void>();
        SPACE_CO_CHECK_OK(co_await connection_.write(data));
        continue;
      }
      std::string frame = chunk_head(got);
      if (got != 0) frame.append(as_text(data));
      frame.append("\r\n");
      SPACE_CO_CHECK_OK(co_await connection_.write(as_bytes(frame)));
      if (got == 0) co_return Result<void>();
    }
  }

  Connection& connection_;
  BodySource& source_;
  std::optional<std::uint64_t> size_;
};

}  // namespace

std::string_view Response::header(std::string_view name) const {
  for (const auto& field : headers) {
    if (field.name.size() == name.size() && std::equal(name.begin(), name.end(), field.name.begin(),
                                                       [](char a, char b) { return lower(a) == lower(b); })) {
      return field.value;
    }
  }
  return {};
}

Client::Client(async::Executor executor, Endpoint endpoint, Options options)
    : executor_(std::move(executor)), endpoint_(std::move(endpoint)), options_(std::move(options)) {}
Client::~Client() = default;

Result<std::string> Client::head_of(const Request& request, std::string_view framing) const {
  std::string target = endpoint_.prefix + request.target;
  if (!is_token(request.method)) return bad_request("malformed method");
  if (!is_target(target)) return bad_request("malformed target");
  std::string head = request.method + " " + target + " HTTP/1.1\r\nHost: " + endpoint_.authority() + "\r\n";
  for (const auto* list : {&options_.headers, &request.headers}) {
    for (const auto& header : *list) {
      if (!is_token(header.name) || !is_value(header.value))
        return bad_request("malformed header " + escape(header.name));
      head.append(header.name).append(": ").append(header.value).append("\r\n");
    }
  }
  return head.append(framing).append("\r\n");
}

Task<Result<std::unique_ptr<Connection>>> Client::connection() {
  if (auto idle = std::move(idle_); idle != nullptr && idle->reusable()) co_return std::move(idle);
  SPACE_CO_TRY(auto socket, co_await connect(endpoint_, options_.connect_timeout));
  co_return std::make_unique<Connection>(std::move(socket));
}

Task<Result<Response>> Client::send(Request request) {
  std::string framing;
  bool may_have_body = request.method != "GET" && request.method != "HEAD";
  if (may_have_body || !request.body.empty())
    framing = "Content-Length: " + std::to_string(request.body.size()) + "\r\n";
  SPACE_CO_TRY(std::string message, head_of(request, framing));
  message += request.body;
  SPACE_CO_TRY(auto link, co_await connection());
  auto written = co_await link->write(as_bytes(message));
  // A server may have answered and closed without reading everything: its answer counts.
  auto response = co_await link->read_response(request.method == "HEAD", nullptr, options_.max_body_bytes);
  if (!written.ok()) link->mark_unusable();
  if (response.ok() && link->keep()) idle_ = std::move(link);
  co_return std::move(response);
}

Task<Result<Response>> Client::download(Request request, BodySink& sink) {
  SPACE_CO_TRY(std::string message, head_of(request, ""));
  SPACE_CO_TRY(auto link, co_await connection());
  SPACE_CO_CHECK_OK(co_await link->write(as_bytes(message)));
  auto response = co_await link->read_response(request.method == "HEAD", &sink, options_.max_body_bytes);
  if (response.ok() && link->keep()) idle_ = std::move(link);
  co_return std::move(response);
}

Task<Result<Response>> Client::upload(Request request, BodySource& source,
                                      std::optional<std::uint64_t> size) {
  std::string framing =
      size ? "Content-Length: " + std::to_string(*size) + "\r\n" : "Transfer-Encoding: chunked\r\n";
  SPACE_CO_TRY(std::string head, head_of(request, framing));
  SPACE_CO_TRY(auto link, co_await connection());
  Uploader uploader(*link, source, size);
  bool complete = false;
  using boost::asio::experimental::awaitable_operators::operator||;
  auto outcome = co_await (link->read_response(false, nullptr, options_.max_body_bytes) ||
                           uploader.run(std::move(head)));
  complete = outcome.index() == 0;
  Result<Response> response = complete ? std::get<0>(std::move(outcome)) : std::get<1>(std::move(outcome));
  // After an early answer the rest of the body is missing: only a connection that took all of it can be used
  // again.
  if (response.ok() && response->ok() && link->keep()) idle_ = std::move(link);
  co_return std::move(response);
}

Task<Result<Upgrade>> Client::upgrade(std::string target) {
  Request request;
  request.target = target;
  SPACE_CO_TRY(std::string checked, head_of(request, ""));  // for its checks
  SPACE_CO_TRY(auto socket, co_await connect(endpoint_, options_.connect_timeout));
  co_return co_await open_websocket(std::move(socket), endpoint_, endpoint_.prefix + target,
                                    options_.headers);
}

}  // namespace space::http::client
