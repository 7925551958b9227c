// SPDX-License-Identifier: Apache-2.0
#include "lib/http/websocket.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/connect.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket/stream.hpp>

#include "lib/http/internal/test_server.h"

namespace space::http {
namespace {

using namespace std::chrono_literals;
using async::Task;
namespace beast = boost::beast;
namespace ws = boost::beast::websocket;

std::atomic<std::size_t> messages_sent{0};
std::atomic<int> ended{0};

Task<void> converse(Exchange& exchange) {
  if (!exchange.wants_websocket()) {
    Response plain;
    plain.status = 426;
    (co_await exchange.respond(std::move(plain))).ignore("test");
    co_return;
  }
  auto upgraded = co_await exchange.upgrade();
  if (!upgraded.ok()) {
    Response bad;
    bad.status = 400;
    (co_await exchange.respond(std::move(bad))).ignore("test");
    co_return;
  }
  WebSocket& socket = **upgraded;
  messages_sent = 0;
  for (;;) {
    auto message = co_await socket.receive();
    if (!message.ok() || message->kind == WebSocketMessage::Kind::kClosed) break;
    if (message->data == "flood") {
      Bytes piece(32 << 10, std::byte{'f'});
      while ((co_await socket.send_binary(as_bytes("\1"), piece)).ok()) ++messages_sent;
      break;
    }
    if (message->data == "bye") {
      (co_await socket.send_text("last words")).ignore("test");
      co_await socket.close(WebSocket::CloseCode::kNormal);
      break;
    }
    if (message->kind == WebSocketMessage::Kind::kText) {
      (co_await socket.send_text(message->data)).ignore("test");
    } else {
      (co_await socket.send_binary(as_bytes(message->data), as_bytes("!"))).ignore("test");
    }
  }
  ++ended;
}

// A blocking client.
struct Client {
  boost::asio::io_context loop;
  ws::stream<boost::asio::ip::tcp::socket> socket{loop};
  explicit Client(std::uint16_t port) {
    socket.next_layer().connect({boost::asio::ip::address_v4::loopback(), port});
    socket.handshake("127.0.0.1", "/x");
  }
  std::string read() {
    beast::flat_buffer buffer;
    socket.read(buffer);
    return beast::buffers_to_string(buffer.data());
  }
  void write(std::string_view text, bool binary = false) {
    socket.binary(binary);
    socket.write(boost::asio::buffer(text.data(), text.size()));
  }
};

template <class Condition>
void wait_for(Condition condition) {
  while (!condition()) std::this_thread::yield();
}

TEST(WebSocketServer, CarriesTextAndBinaryBothWays) {
  TestServer server(converse);
  Client client(server.port);
  client.write("grüß");
  EXPECT_EQ(client.read(), "grüß");
  EXPECT_TRUE(client.socket.got_text());
  client.write(std::string("a\0b", 3), true);
  EXPECT_EQ(client.read(), std::string("a\0b!", 4));
  EXPECT_TRUE(client.socket.got_binary());
  std::string large(1 << 20, 'x');
  client.write(large, true);
  EXPECT_EQ(client.read().size(), large.size() + 1);
}

TEST(WebSocketServer, CloseArrivesAfterTheLastMessage) {
  TestServer server(converse);
  Client client(server.port);
  client.write("bye");
  EXPECT_EQ(client.read(), "last words");
  beast::flat_buffer buffer;
  beast::error_code error;
  client.socket.read(buffer, error);
  EXPECT_EQ(error, ws::error::closed);
  EXPECT_EQ(client.socket.reason().code, 1000);
  wait_for([&] { return server.connections() == 0; });
}

TEST(WebSocketServer, AMessageBeyondTheLimitEndsTheConnection) {
  TestServer server(converse);
  Client client(server.port);
  beast::error_code error;
  client.socket.binary(true);
  std::string huge((1 << 20) + 1, 'x');
  client.socket.write(boost::asio::buffer(huge), error);
  beast::flat_buffer buffer;
  client.socket.read(buffer, error);
  EXPECT_TRUE(error);
  EXPECT_EQ(client.socket.reason().code, ws::close_code::too_big);
}

TEST(WebSocketServer, AReaderThatStopsStopsTheSender) {
  TestServer server(converse);
  Client client(server.port);
  client.write("flood");
  client.read();
  std::size_t before;
  do {
    before = messages_sent;
    std::this_thread::sleep_for(50ms);
  } while (messages_sent != before);
  EXPECT_LT(messages_sent * (32u << 10), 32u << 20);
  for (int i = 0; i < 2000; ++i) client.read();
  EXPECT_GT(messages_sent.load(), before);
}

TEST(WebSocketServer, ASilentClientThatTakesNothingIsDisconnected) {
  ServerOptions options;
  options.stall_limit = 200ms;
  TestServer server(converse, options);
  Client client(server.port);
  client.write("flood");
  int before = ended;
  wait_for([&] { return ended > before; });
  wait_for([&] { return server.connections() == 0; });
}

TEST(WebSocketServer, PingsKeepComing) {
  ServerOptions options;
  options.ping_every = 20ms;
  TestServer server(converse, options);
  Client client(server.port);
  std::atomic<int> pings{0};
  client.socket.control_callback([&](ws::frame_type kind, beast::string_view) {
    if (kind == ws::frame_type::ping && ++pings == 3) client.write("enough");
  });
  EXPECT_EQ(client.read(), "enough");
}

TEST(WebSocketServer, AClientThatVanishesEndsTheHandler) {
  TestServer server(converse);
  int before = ended;
  {
    Client client(server.port);
    client.write("x");
    client.read();
  }
  wait_for([&] { return ended > before; });
}

TEST(WebSocketServer, PlainRequestsAndBadHandshakesAreRefused) {
  TestServer server(converse);
  RawClient plain(server.port);
  plain.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_NE(plain.read_to_end().find("426"), std::string::npos);
  RawClient bad(server.port);
  bad.send(
      "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "
      "13\r\n\r\n");
  EXPECT_NE(bad.read_until("\r\n\r\n").find("400"), std::string::npos);
}

TEST(WebSocketServer, GarbageFramesEndOnlyTheirConnection) {
  TestServer server(converse);
  for (int round = 0; round < 50; ++round) {
    RawClient bad(server.port);
    bad.send(
        "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "
        "13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    bad.read_until("\r\n\r\n");
    std::string garbage;
    for (int i = 0; i < 64; ++i) garbage += static_cast<char>((i * 37 + round * 101) % 256);
    bad.send(garbage);
    bad.half_close();
    bad.read_to_end();
  }
  Client client(server.port);
  client.write("alive");
  EXPECT_EQ(client.read(), "alive");
}

}  // namespace
}  // namespace space::http
