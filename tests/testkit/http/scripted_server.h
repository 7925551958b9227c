// SPDX-License-Identifier: Apache-2.0
#pragma once
// A real HTTP/1.1 and WebSocket server on loopback whose answers a test writes. Each connection is served by
// a thread of its own with blocking calls, so a script reads like the conversation it plays.
//
//   ScriptedServer server;
//   server.on("GET", "/v1/node", [](const Asked& asked) { return Answer{200, R"({"id":"n"})"}; });
//   server.on_socket("/v1/sessions/s/exec", [](Socket& socket) { auto first = socket.read();
//   socket.text("..."); });
//
// Resource type. Install handlers before the first request. Handlers run on other threads.

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace space::testkit {

struct Asked {
  std::string method;
  std::string path;                            // without the query
  std::string query;                           // after the question mark, still encoded
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

struct Answer {
  unsigned status = 200;
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  bool chunked = false;
  std::size_t cut_after = SIZE_MAX;  // closes the connection after so many bytes of the body
};

// One WebSocket, seen from the server.
class Socket {
 public:
  struct Frame {
    bool binary = false;
    std::string data;
  };
  virtual ~Socket() = default;
  virtual std::optional<Frame> read() = 0;  // nullopt: the client has gone
  virtual void text(const std::string& data) = 0;
  virtual void binary(const std::string& data) = 0;
  virtual void close() = 0;  // in an orderly way
  virtual void cut() = 0;    // without a word
};

class ScriptedServer {
 public:
  using Handler = std::function<Answer(const Asked&)>;
  using SocketHandler = std::function<void(Socket&, const Asked&)>;

  ScriptedServer();
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  void on(const std::string& method, const std::string& path, Handler handler);
  void on_socket(const std::string& path, SocketHandler handler);

  [[nodiscard]] std::string url() const;
  [[nodiscard]] unsigned short port() const;
  // Everything asked so far, upgrades included.
  [[nodiscard]] std::vector<Asked> asked() const;
  [[nodiscard]] int connections() const { return connections_; }

 private:
  struct Impl;
  void accept_loop();
  void serve(int fd);

  std::unique_ptr<Impl> impl_;
  mutable std::mutex mutex_;
  std::map<std::string, Handler> handlers_;
  std::map<std::string, SocketHandler> socket_handlers_;
  std::vector<Asked> asked_;
  std::vector<int> open_;  // descriptors of live connections, to cut them at the end
  std::vector<std::thread> threads_;
  std::atomic<int> connections_{0};
  std::atomic<bool> stopping_{false};
  std::thread acceptor_;
};

}  // namespace space::testkit
