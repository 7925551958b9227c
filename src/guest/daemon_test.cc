// SPDX-License-Identifier: Apache-2.0
// The daemon as a whole: ports, what it tells of itself, its end, and a channel that misbehaves.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "guest/testing/host_side.h"
#include "lib/os/file.h"
#include "lib/os/unix_socket.h"

namespace space::guest::testing {
namespace {

struct DaemonTest : ::testing::Test {
  DaemonProcess daemon;
  HostSide host{daemon.take_socket()};
};

// A listener on the loopback of that family, at a port that the kernel chose.
struct Listener {
  os::Fd fd;
  std::uint16_t port = 0;
  explicit Listener(int family) : fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_storage address{};
    address.ss_family = static_cast<sa_family_t>(family);
    if (family == AF_INET) reinterpret_cast<sockaddr_in*>(&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (family == AF_INET6) reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr = in6addr_loopback;
    socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(fd.get(), 4) != 0)
      return;
    ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(family == AF_INET ? reinterpret_cast<sockaddr_in*>(&address)->sin_port
                                   : reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
  }
};

guestapi::ConnectT connect_to(std::uint16_t port) {
  guestapi::ConnectT request;
  request.port = port;
  return request;
}

TEST_F(DaemonTest, SaysHello) {
  auto& call = host.call(guestapi::HelloT{});
  ASSERT_EQ(call.reason(), "ok");
  const auto* hello = call.message<guestapi::HelloReplyT>();
  ASSERT_NE(hello, nullptr);
  EXPECT_EQ(hello->protocol, wire::kProtocolVersion);
  EXPECT_FALSE(hello->version.empty());
  EXPECT_FALSE(hello->kernel.empty());
  EXPECT_EQ(hello->boot_id.size(), 36U);
  EXPECT_GT(hello->kernel_boot_us, 0U);
  EXPECT_GE(hello->ready_us, hello->kernel_boot_us);
}

TEST_F(DaemonTest, ReportsMetrics) {
  auto& call = host.call(guestapi::GetMetricsT{});
  ASSERT_EQ(call.reason(), "ok");
  const auto* metrics = call.message<guestapi::MetricsT>();
  ASSERT_NE(metrics, nullptr);
  EXPECT_GT(metrics->uptime_ms, 0U);
  EXPECT_GT(metrics->cpu_user_ms + metrics->cpu_system_ms, 0U);
  EXPECT_GT(metrics->memory_total, metrics->memory_available);
  EXPECT_GT(metrics->memory_available, 0U);
  EXPECT_GT(metrics->disk_total, metrics->disk_free);
  EXPECT_GT(metrics->processes, 1U);
}

TEST_F(DaemonTest, ConnectsToAPortAndEachSideCanSend) {
  for (int family : {AF_INET, AF_INET6}) {
    Listener listener(family);
    if (listener.port == 0) GTEST_SKIP() << "no loopback of this family";
    auto stream = host.open(connect_to(listener.port));
    ASSERT_TRUE(host.until(
        [&] { return host[stream].message<guestapi::ConnectedT>() != nullptr || host[stream].over(); }));
    ASSERT_FALSE(host[stream].over()) << host[stream].reason();
    os::Fd server(::accept(listener.fd.get(), nullptr, nullptr));
    ASSERT_EQ(::write(server.get(), "hello", 5), 5);
    ASSERT_TRUE(host.until([&] { return host[stream].data[1] == "hello"; }));
    ASSERT_TRUE(host.send_all(stream, "question"));
    host.end(stream);  // the server sees the end of input and can still answer
    std::string got;
    char buffer[64];
    for (ssize_t n; (n = ::read(server.get(), buffer, sizeof buffer)) > 0;)
      got.append(buffer, static_cast<std::size_t>(n));
    EXPECT_EQ(got, "question");
    ASSERT_EQ(::write(server.get(), " answer", 7), 7);
    server.reset();
    ASSERT_TRUE(host.until([&] { return host[stream].over(); }));
    EXPECT_EQ(host[stream].data[1], "hello answer");
    EXPECT_EQ(host[stream].reason(), "ok");
  }
}

TEST_F(DaemonTest, LargeTransfersThroughAPortAreComplete) {
  Listener listener(AF_INET);
  std::string text(5'000'000, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 >> 3);
  // Echoes everything.
  std::thread echo([&] {
    os::Fd server(::accept(listener.fd.get(), nullptr, nullptr));
    char buffer[65536];
    for (ssize_t n; (n = ::read(server.get(), buffer, sizeof buffer)) > 0;) {
      if (!os::write_all(server.get(), as_bytes(std::string_view(buffer, static_cast<std::size_t>(n)))).ok())
        return;
    }
  });
  auto stream = host.open(connect_to(listener.port));
  EXPECT_TRUE(host.send_all(stream, text));
  host.end(stream);
  EXPECT_TRUE(host.until([&] { return host[stream].over(); }));
  echo.join();
  EXPECT_TRUE(host[stream].data[1] == text);
}

TEST_F(DaemonTest, APortWithoutAServerRefuses) {
  std::uint16_t port = Listener(AF_INET).port;  // closed again
  auto& call = host.call(connect_to(port));
  EXPECT_EQ(call.reason(), "guest.connection_refused");
  EXPECT_EQ(call.message<guestapi::ConnectedT>(), nullptr);
  EXPECT_EQ(host.call(connect_to(0)).status->error().field, "port");
}

TEST_F(DaemonTest, RequestsThatCannotBeParsedEndOnlyTheirCall) {
  auto stream = host.open_bytes(as_bytes("this is no request"));
  ASSERT_TRUE(host.until([&] { return host[stream].over(); }));
  EXPECT_EQ(host[stream].reason(), "wire.malformed_message");
  auto tiny = host.open_bytes(as_bytes("x"));
  ASSERT_TRUE(host.until([&] { return host[tiny].over(); }));
  EXPECT_EQ(host[tiny].reason(), "wire.malformed_message");
  EXPECT_EQ(host.call(guestapi::HelloT{}).reason(), "ok");
}

TEST_F(DaemonTest, GarbageOnTheChannelIsSurvived) {
  std::mt19937 random(20260101);
  for (unsigned char round = 2; round < 40; ++round) {
    Bytes noise(random() % 5000);
    for (auto& byte : noise) byte = static_cast<std::byte>(random());
    host.write_raw(noise);
    host.attach(round);
    ASSERT_EQ(host.call(guestapi::HelloT{}).reason(), "ok");
  }
}

TEST_F(DaemonTest, ShutdownAnswersEndsEveryCommandAndThenTheDaemon) {
  auto stream = host.open(shell("c1", "echo $$; sleep 1000"));
  ASSERT_TRUE(host.until([&] { return host[stream].data[1].find('\n') != std::string::npos; }));
  pid_t pid = std::stoi(host[stream].data[1]);
  auto& call = host.call(guestapi::ShutdownT{});
  EXPECT_EQ(call.reason(), "ok");
  EXPECT_EQ(daemon.wait(), 0);
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST_F(DaemonTest, ProcessesThatLeftTheirSessionAreKilledByTheTimeout) {
  auto request = shell("c1", "(setsid sh -c 'echo $$; exec sleep 1000' &); sleep 1000");
  request.timeout_ms = 500;
  auto& call = host.call(std::move(request));
  ASSERT_NE(call.message<guestapi::ExitedT>(), nullptr);
  EXPECT_TRUE(call.message<guestapi::ExitedT>()->timed_out);
  ASSERT_FALSE(call.data[1].empty());
  pid_t orphan = std::stoi(call.data[1]);
  EXPECT_TRUE(host.until([&] { return ::kill(orphan, 0) != 0; }));
}

TEST(DaemonSocketTest, ServesConnectionAfterConnectionAndKeepsCommands) {
  char pattern[] = "/tmp/spaced-sock-XXXXXX";
  std::string dir = ::mkdtemp(pattern);
  {
    DaemonProcess daemon(dir + "/s");
    auto dial = [&] {
      for (;;) {
        auto socket = os::connect_unix(dir + "/s");
        if (socket.ok()) return std::move(socket).value();
        std::this_thread::yield();
      }
    };
    {
      HostSide first(dial(), 1);
      auto request = shell("c1", "echo kept; sleep 1000");
      request.detached = true;
      EXPECT_EQ(first.call(std::move(request)).reason(), "ok");
    }
    HostSide second(dial(), 2);
    guestapi::AttachT attach;
    attach.command_id = "c1";
    auto stream = second.open(std::move(attach));
    EXPECT_TRUE(second.until([&] { return second[stream].data[1] == "kept\n"; }));
  }
  EXPECT_TRUE(os::list_directory(dir)->empty());
  os::remove_tree(dir).ignore("test clean-up");
}

}  // namespace
}  // namespace space::guest::testing
