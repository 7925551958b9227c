// SPDX-License-Identifier: Apache-2.0
#pragma once
// The client's end of a WebSocket.
//
// While a message is awaited the server must be heard (its pings count) within kServerSilence, else the
// socket counts as broken: a frozen server is not waited for without end. The client sends a pong of its own
// every kKeepAlive, so that a reader that is slow to take output is not taken for dead. Reads and writes may
// run at the same time; writes queue. Resource type; one loop. Made by Client::upgrade().

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "lib/async/task.h"
#include "lib/base/bytes.h"
#include "lib/base/result.h"

namespace space::http::client {

inline constexpr std::chrono::seconds kServerSilence{90};
inline constexpr std::chrono::seconds kKeepAlive{15};
inline constexpr std::size_t kMaxMessageBytes = 4u << 20;

class WebSocket {
 public:
  struct Message {
    bool binary = false;
    ByteView data;  // valid until the next read()
  };

  ~WebSocket();
  WebSocket(const WebSocket&) = delete;
  WebSocket& operator=(const WebSocket&) = delete;

  // The next message; nullopt when the server closed in an orderly way. Errors: http.broken_stream.
  // One read at a time.
  async::Task<Result<std::optional<Message>>> read();
  // `data` and `text` stay valid until the task is done. Errors: http.broken_stream.
  async::Task<Result<void>> send_text(std::string_view text);
  async::Task<Result<void>> send_binary(ByteView data);
  // Is a message on its way out? Then the next one waits, perhaps for as long as the server takes nothing.
  [[nodiscard]] bool sending() const;
  // Says good-bye and waits a moment for the answer. Nothing may be read or sent afterwards.
  async::Task<void> close();

  struct State;  // of websocket.cc
  explicit WebSocket(std::shared_ptr<State> state);

 private:
  async::Task<Result<void>> send(ByteView data, bool binary);
  std::shared_ptr<State> state_;  // shared with the keep-alive task on its way out
};

}  // namespace space::http::client
