// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "cli/cli_fixture.h"

namespace space::cli {
namespace {

using boost::asio::ip::tcp;

struct PortForward : CliFixture {
  void SetUp() override {
    CliFixture::SetUp();
    server.on("GET", "/v1/sessions/demo", [](const Asked&) { return Answer{200, R"({"id":"s1"})", {}}; });
  }
  // Runs the command; `client` gets the bound port and talks to it; then the command is interrupted.
  int forward(const std::string& ports, const std::function<void(unsigned short)>& client) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    os::Fd reader(ends[0]);
    os::Fd writer(ends[1]);
    std::string line;
    std::thread other([&] {
      char c = 0;
      while (::read(reader.get(), &c, 1) == 1 && c != '\n') line += c;
      client(static_cast<unsigned short>(std::stoi(line.substr(line.find(':') + 1))));
      ::kill(::getpid(), SIGTERM);
    });
    int code = run_with({"port-forward", "demo", ports}, {-1, writer.get(), -1});
    writer.reset();
    other.join();
    printed = line;
    return code;
  }
  std::string printed;
};

tcp::socket connect(boost::asio::io_context& loop, unsigned short port) {
  tcp::socket socket(loop);
  socket.connect({boost::asio::ip::address_v4::loopback(), port});
  return socket;
}

std::string read_to_end(tcp::socket& socket) {
  std::string got;
  boost::system::error_code error;
  boost::asio::read(socket, boost::asio::dynamic_buffer(got), error);
  return error == boost::asio::error::eof ? got : "error: " + error.message();
}

TEST_F(PortForward, EachDirectionEndsByItself) {
  server.on_socket("/v1/sessions/demo/ports/8000", [](Socket& socket, const Asked&) {
    socket.text(R"({"type":"connected"})");
    std::string all;
    for (auto frame = socket.read(); frame && frame->binary; frame = socket.read()) all += frame->data;
    socket.binary("got " + std::to_string(all.size()));  // after the client has ended its direction
    socket.text(R"({"type":"end"})");
    socket.close();
  });
  std::string answers;
  int code = forward("0:8000", [&](unsigned short port) {
    boost::asio::io_context loop;
    auto one = connect(loop, port);
    auto two = connect(loop, port);
    boost::asio::write(one, boost::asio::buffer(std::string(300'000, 'x')));
    boost::asio::write(two, boost::asio::buffer(std::string("abc")));
    one.shutdown(tcp::socket::shutdown_send);
    two.shutdown(tcp::socket::shutdown_send);
    answers = read_to_end(one) + ", " + read_to_end(two);
  });
  EXPECT_EQ(code, 0) << err;
  EXPECT_EQ(answers, "got 300000, got 3");
  EXPECT_TRUE(printed.starts_with("127.0.0.1:")) << printed;
  EXPECT_TRUE(printed.ends_with(" -> demo:8000")) << printed;
}

TEST_F(PortForward, APortThatRefusesInTheSessionIsAResetHere) {
  server.on_socket("/v1/sessions/demo/ports/8000", [](Socket& socket, const Asked&) {
    socket.text(R"({"type":"error",)" +
                json_error("unavailable", "guest.connection_refused", "nothing listens").substr(1));
    socket.read();
  });
  std::string answer;
  EXPECT_EQ(forward(":8000",
                    [&](unsigned short port) {
                      boost::asio::io_context loop;
                      auto socket = connect(loop, port);
                      answer = read_to_end(socket);
                    }),
            0);
  EXPECT_NE(answer.find("reset"), std::string::npos) << answer;
  EXPECT_NE(err.find("guest.connection_refused"), std::string::npos) << err;
}

TEST_F(PortForward, ABusyPortAndAMissingSessionAreSaidAtOnce) {
  boost::asio::io_context loop;
  tcp::acceptor busy(loop, {boost::asio::ip::address_v4::loopback(), 0});
  std::string port = std::to_string(busy.local_endpoint().port());
  EXPECT_EQ(space({"port-forward", "demo", port + ":80"}), 1);
  EXPECT_NE(err.find("in use"), std::string::npos) << err;
  EXPECT_EQ(space({"port-forward", "nobody", "0:80"}), 1);
  EXPECT_EQ(space({"port-forward", "demo", "0:0"}), 2);
}

}  // namespace
}  // namespace space::cli
