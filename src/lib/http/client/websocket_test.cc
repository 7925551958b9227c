// SPDX-License-Identifier: Apache-2.0
#include "lib/http/client/websocket.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>

#include "lib/async/task_scope.h"
#include "lib/http/client/client.h"
#include "tests/testkit/http/scripted_server.h"

namespace space::http::client {
namespace {

using async::Task;
using testkit::Asked;
using testkit::ScriptedServer;
using testkit::Socket;

struct WebSocketTest : ::testing::Test {
  ScriptedServer server;
  async::Loop loop;
  async::TaskScope scope{loop.get_executor()};
  std::unique_ptr<Client> client;

  void SetUp() override {
    Options options;
    options.headers = {{"Authorization", "Bearer k"}};
    client = std::make_unique<Client>(loop.get_executor(), *parse_url(server.url()), options);
  }
  void run(Task<void> task) {
    scope.spawn(std::move(task));
    loop.restart();
    loop.run();
  }
};

Task<void> conversation(Client& client) {
  auto upgrade = co_await client.upgrade("/ws?x=1");
  if (!upgrade.ok()) {
    ADD_FAILURE() << upgrade.error().describe();
    co_return;
  }
  auto& socket = *upgrade->socket;
  EXPECT_TRUE((co_await socket.send_text("hello")).ok());
  EXPECT_TRUE((co_await socket.send_binary(as_bytes(std::string(3 << 20, 'b')))).ok());
  auto first = co_await socket.read();
  EXPECT_FALSE((*first)->binary);
  EXPECT_EQ(as_text((*first)->data), "hello");
  auto second = co_await socket.read();
  EXPECT_TRUE((*second)->binary);
  EXPECT_EQ((*second)->data.size(), 3U << 20);
  auto end = co_await socket.read();
  EXPECT_TRUE(end.ok() && !end->has_value());
}

TEST_F(WebSocketTest, CarriesTextAndBytesAndEndsInOrder) {
  server.on_socket("/ws", [](Socket& socket, const Asked&) {
    for (int i = 0; i < 2; ++i) {
      auto frame = socket.read();
      frame->binary ? socket.binary(frame->data) : socket.text(frame->data);
    }
    socket.close();
  });
  run(conversation(*client));
  EXPECT_EQ(server.asked()[0].headers.at("authorization"), "Bearer k");
  EXPECT_EQ(server.asked()[0].query, "x=1");
}

Task<void> read_once(Client& client, Result<std::optional<WebSocket::Message>>& out) {
  auto upgrade = co_await client.upgrade("/ws");
  out = co_await upgrade->socket->read();
}

TEST_F(WebSocketTest, AConnectionThatIsCutIsAnErrorNotAnEnd) {
  server.on_socket("/ws", [](Socket& socket, const Asked&) { socket.cut(); });
  Result<std::optional<WebSocket::Message>> out;
  run(read_once(*client, out));
  EXPECT_EQ(out.error().reason, "http.broken_stream");
}

Task<void> declined(Client& client, Response& out) {
  auto upgrade = co_await client.upgrade("/nowhere");
  EXPECT_EQ(upgrade->socket, nullptr);
  out = std::move(upgrade->declined);
}

TEST_F(WebSocketTest, ADeclinedUpgradeGivesTheServersAnswer) {
  Response response;
  run(declined(*client, response));
  EXPECT_EQ(response.status, 404U);
  EXPECT_NE(response.body.find("test.no_script"), std::string::npos);
}

Task<void> write_many(WebSocket& socket, char mark, int& done) {
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE((co_await socket.send_binary(as_bytes(std::string(100'000, mark)))).ok());
  if (++done == 2) co_await socket.close();
}
Task<void> two_writers(Client& client, async::TaskScope& scope) {
  auto upgrade = co_await client.upgrade("/ws");
  int done = 0;
  scope.spawn(write_many(*upgrade->socket, 'a', done));
  scope.spawn(write_many(*upgrade->socket, 'b', done));
  auto end = co_await upgrade->socket->read();
  while (done < 2) co_await async::sleep_for(std::chrono::milliseconds(1));
}

TEST_F(WebSocketTest, WritersTakeTurnsMessageByMessage) {
  int whole = 0;
  server.on_socket("/ws", [&](Socket& socket, const Asked&) {
    while (auto frame = socket.read()) {
      whole += frame->data == std::string(100'000, frame->data.at(0)) ? 1 : 0;
    }
  });
  run(two_writers(*client, scope));
  EXPECT_EQ(whole, 40);
}

}  // namespace
}  // namespace space::http::client
