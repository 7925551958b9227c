// SPDX-License-Identifier: Apache-2.0
#include "lib/http/server.h"

#include <gtest/gtest.h>

#include <atomic>

#include "lib/http/internal/test_server.h"
#include "lib/os/random.h"

namespace space::http {
namespace {

using namespace std::chrono_literals;
using async::Task;

std::atomic<std::size_t> body_bytes_seen{0};
std::atomic<std::size_t> bytes_written{0};

Task<void> echo(Exchange& exchange) {
  auto body = co_await exchange.read_all(1 << 20);
  Response response;
  if (!body.ok()) {
    response.status = body.error().reason == "http.body_too_large" ? 413 : 400;
    response.body = body.error().reason;
  } else {
    response.body = exchange.request().method + " " + exchange.request().target + " " + *body;
  }
  (co_await exchange.respond(std::move(response))).ignore("test");
}

// Answers at once, whatever is still coming.
Task<void> early(Exchange& exchange) {
  Response response;
  response.status = 404;
  response.body = "no";
  (co_await exchange.respond(std::move(response))).ignore("test");
}

Task<void> count_body(Exchange& exchange) {
  Bytes piece(64 << 10);
  std::size_t total = 0;
  for (;;) {
    auto got = co_await exchange.read_body(piece);
    if (!got.ok()) co_return;
    if (*got == 0) break;
    total += *got;
    body_bytes_seen = total;
  }
  Response response;
  response.body = std::to_string(total);
  (co_await exchange.respond(std::move(response))).ignore("test");
}

Task<void> flood(Exchange& exchange) {
  bytes_written = 0;
  if (!(co_await exchange.begin({}, std::nullopt)).ok()) co_return;
  Bytes piece(64 << 10, std::byte{'f'});
  for (int i = 0; i < 4096; ++i) {
    if (!(co_await exchange.write(piece)).ok()) co_return;
    bytes_written += piece.size();
  }
  (co_await exchange.finish()).ignore("test");
}

Task<void> broken_stream(Exchange& exchange) {
  if (!(co_await exchange.begin({}, std::nullopt)).ok()) co_return;
  (co_await exchange.write(as_bytes("part"))).ignore("test");
}

Task<void> until_gone(Exchange& exchange) {
  if (!(co_await exchange.begin({}, std::nullopt)).ok()) co_return;
  co_await exchange.client_gone();
  bytes_written = 4711;
}

template <class Condition>
void wait_for(Condition condition) {
  while (!condition()) std::this_thread::yield();
}

TEST(HttpServer, AnswersSeveralRequestsOnOneConnection) {
  TestServer server(echo);
  RawClient client(server.port);
  client.send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(client.read_until("GET /a ").find("HTTP/1.1 200 OK"), std::string::npos);
  client.forget();
  client.send("POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
  EXPECT_NE(client.read_until("POST /b hello").find("POST /b hello"), std::string::npos);
}

TEST(HttpServer, PipelinedRequestsAreAnsweredInOrder) {
  TestServer server(echo);
  RawClient client(server.port);
  client.send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  std::string all = client.read_to_end();
  EXPECT_LT(all.find("GET /1"), all.find("GET /2"));
  EXPECT_NE(all.find("GET /2"), std::string::npos);
}

TEST(HttpServer, ChunkedBodiesAreRead) {
  TestServer server(echo);
  RawClient client(server.port);
  client.send(
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: "
      "close\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n");
  EXPECT_NE(client.read_to_end().find("POST / abcdefg"), std::string::npos);
}

TEST(HttpServer, AnOversizedBodyIsRefusedAndTheAnswerArrives) {
  TestServer server(echo);
  RawClient client(server.port);
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n" + std::string(8'000'000, 'x'));
  EXPECT_NE(client.read_to_end().find("HTTP/1.1 413"), std::string::npos);
}

TEST(HttpServer, AnOversizedChunkedBodyIsRefusedToo) {
  TestServer server(echo);
  RawClient client(server.port);
  client.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n200000\r\n" +
              std::string(0x200000, 'x') + "\r\n0\r\n\r\n");
  EXPECT_NE(client.read_to_end().find("HTTP/1.1 413"), std::string::npos);
}

TEST(HttpServer, AnEarlyAnswerReachesAClientThatIsStillSending) {
  TestServer server(early);
  RawClient client(server.port);
  client.send("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n" + std::string(4'000'000, 'x'));
  EXPECT_NE(client.read_to_end().find("HTTP/1.1 404"), std::string::npos);
}

TEST(HttpServer, ExpectContinueIsAnsweredWhenTheBodyIsWanted) {
  TestServer server(echo);
  RawClient client(server.port);
  client.send(
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("hi");
  EXPECT_NE(client.read_to_end().find("POST / hi"), std::string::npos);
}

TEST(HttpServer, ExpectContinueIsNotAnsweredWhenTheBodyIsNotWanted) {
  TestServer server(early);
  RawClient client(server.port);
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_to_end().find("100 Continue"), std::string::npos);
}

TEST(HttpServer, HeadHasTheLengthAndNoBody) {
  TestServer server(echo);
  RawClient client(server.port);
  client.send("HEAD /h HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  std::string all = client.read_to_end();
  EXPECT_NE(all.find("Content-Length: 8\r\n"), std::string::npos);
  EXPECT_EQ(all.substr(all.size() - 4), "\r\n\r\n");
}

TEST(HttpServer, AHugeHeadIsRefused) {
  TestServer server(echo);
  RawClient client(server.port);
  client.send("GET / HTTP/1.1\r\nHost: x\r\nX: " + std::string(70'000, 'h') + "\r\n\r\n");
  EXPECT_NE(client.read_to_end().find("431"), std::string::npos);
}

TEST(HttpServer, AHeadThatDoesNotArriveInTimeEndsTheConnection) {
  ServerOptions options;
  options.header_time = 50ms;
  TestServer server(echo, options);
  RawClient client(server.port);
  client.send("GET / HTTP/1.1\r\nHos");
  EXPECT_EQ(client.read_to_end(), "");
  wait_for([&] { return server.connections() == 0; });
}

TEST(HttpServer, AnIdleConnectionIsClosedQuietly) {
  ServerOptions options;
  options.keep_alive = 50ms;
  TestServer server(echo, options);
  RawClient client(server.port);
  EXPECT_EQ(client.read_to_end(), "");
}

TEST(HttpServer, ABodyThatStopsArrivingIsGivenUp) {
  ServerOptions options;
  options.body_idle = 50ms;
  TestServer server(echo, options);
  RawClient client(server.port);
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(client.read_to_end(), "");
  wait_for([&] { return server.connections() == 0; });
}

TEST(HttpServer, AStreamedAnswerThatBreaksOffIsNotComplete) {
  TestServer server(broken_stream);
  RawClient client(server.port);
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  std::string all = client.read_to_end();
  EXPECT_NE(all.find("4\r\npart\r\n"), std::string::npos);
  EXPECT_EQ(all.find("0\r\n\r\n"), std::string::npos);
}

TEST(HttpServer, AReaderThatStopsStopsTheWriter) {
  TestServer server(flood);
  RawClient client(server.port);
  client.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  client.read_until("f");
  std::size_t before;
  do {  // until the writer stands still
    before = bytes_written;
    std::this_thread::sleep_for(50ms);
  } while (bytes_written != before);
  EXPECT_LT(bytes_written.load(), 128u << 20);  // of 256 MiB: only what the kernel's buffers hold
  EXPECT_GT(client.read_to_end().size(), 256u << 20);
}

TEST(HttpServer, AClientThatTakesNothingIsDisconnected) {
  ServerOptions options;
  options.stall_limit = 200ms;
  TestServer server(flood, options);
  RawClient client(server.port);
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  wait_for([&] { return server.connections() == 1; });
  wait_for([&] { return server.connections() == 0; });
  EXPECT_LT(bytes_written.load(), 256u << 20);
}

TEST(HttpServer, AClientThatVanishesFreesASilentAnswer) {
  TestServer server(until_gone);
  RawClient client(server.port);
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  client.read_until("\r\n\r\n");
  client.close();
  wait_for([&] { return server.connections() == 0; });
  EXPECT_EQ(bytes_written.load(), 4711U);
}

TEST(HttpServer, AClientThatVanishesInItsBodyIsForgotten) {
  TestServer server(count_body);
  RawClient client(server.port);
  client.send("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc");
  wait_for([&] { return server.connections() == 1; });
  client.slam();
  wait_for([&] { return server.connections() == 0; });
}

TEST(HttpServer, ConnectionsBeyondTheLimitAreToldSo) {
  ServerOptions options;
  options.max_connections = 1;
  TestServer server(echo, options);
  RawClient first(server.port);
  first.send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\n");
  first.read_until("GET /1");
  RawClient second(server.port);
  EXPECT_NE(second.read_to_end().find("503"), std::string::npos);
}

TEST(HttpServer, StopWaitsForTheRequestUnderWay) {
  TestServer server(count_body);
  RawClient client(server.port);
  client.send("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc");
  body_bytes_seen = 0;
  wait_for([] { return body_bytes_seen == 3; });
  std::thread stopper([&] { server.stop(10s); });
  client.send("def");
  EXPECT_NE(client.read_to_end().find("\r\n\r\n6"), std::string::npos);
  stopper.join();
}

TEST(HttpServer, StopBreaksWhatDoesNotEnd) {
  TestServer server(until_gone);
  RawClient client(server.port);
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  client.read_until("\r\n\r\n");
  server.stop(10ms);
  EXPECT_EQ(client.read_to_end().find("0\r\n\r\n"), std::string::npos);
}

TEST(HttpServer, SmugglingAttemptsAreRefused) {
  TestServer server(echo);
  for (const char* text :
       {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -3\r\n\r\n", "GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        "GET / HTTP/1.1\r\n X: folded\r\n\r\n"}) {
    RawClient client(server.port);
    client.send(text);
    client.half_close();
    EXPECT_EQ(client.read_to_end().find("HTTP/1.1 200"), std::string::npos) << text;
  }
}

TEST(HttpServer, GarbageNeverHurtsTheNextClient) {
  TestServer server(echo);
  os::SeededRandom random(20261130);
  const std::string kSeed =
      "POST /v1/x?y=z HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\nUpgrade: "
      "websocket\r\n\r\nabc";
  for (int round = 0; round < 300; ++round) {
    std::string text = kSeed;
    std::array<std::byte, 16> dice;
    random.fill(dice);
    for (std::size_t i = 0; i + 1 < dice.size(); i += 2) {
      text[static_cast<std::size_t>(dice[i]) % text.size()] = static_cast<char>(dice[i + 1]);
    }
    if (round % 3 == 0) text.resize(static_cast<std::size_t>(dice[0]) % text.size());
    RawClient client(server.port);
    client.send(text);
    client.half_close();
    client.read_to_end();
  }
  RawClient client(server.port);
  client.send("GET /alive HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_NE(client.read_to_end().find("GET /alive"), std::string::npos);
  wait_for([&] { return server.connections() == 0; });
}

TEST(HttpHeaders, AValueCannotBreakItsLine) {
  Headers headers;
  headers.set("X-Name", "a\r\nSet-Cookie: b\x7f");
  EXPECT_EQ(headers.get("x-name"), "a??Set-Cookie: b?");
  headers.set("x-NAME", "c");
  EXPECT_EQ(headers.all().size(), 1U);
}

}  // namespace
}  // namespace space::http
