// SPDX-License-Identifier: Apache-2.0
// space port-forward: local ports whose connections end in a session.
//
// Listens on 127.0.0.1 only. Each connection is a WebSocket of its own; either side may end its direction
// first.
#include <CLI/CLI.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/json/object.hpp>

#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/target.h"
#include "lib/async/task_scope.h"

namespace space::cli {
namespace json = boost::json;
using async::Task;
using boost::asio::ip::tcp;
using http::client::WebSocket;

namespace {

constexpr std::size_t kMaxConnections = 256;  // of one forward; further ones wait in the kernel's queue
constexpr std::size_t kChunk = 64u << 10;

struct ForwardOptions {
  std::string session;
  std::vector<std::string> ports;
};

// One connection. Resource type; shared by its two directions.
struct Link {
  Link(tcp::socket accepted, std::unique_ptr<WebSocket> opened)
      : local(std::move(accepted)), remote(std::move(opened)) {}
  tcp::socket local;
  std::unique_ptr<WebSocket> remote;
};

Task<void> to_session(std::shared_ptr<Link> link) {
  std::vector<std::byte> buffer(kChunk);
  boost::system::error_code error;
  for (;;) {
    std::size_t got = co_await link->local.async_read_some(
        boost::asio::buffer(buffer), boost::asio::redirect_error(boost::asio::use_awaitable, error));
    if (error) break;
    if (!(co_await link->remote->send_binary(ByteView(buffer.data(), got))).ok()) co_return;
  }
  if (error == boost::asio::error::eof) {
    (co_await link->remote->send_text(R"({"type":"end"})")).ignore("the other direction sees it too");
  } else {
    co_await link->remote->close();  // a reset here is a reset there
  }
}

// What came instead of data; an error when the connection can't go on.
Result<json::value> control_frame(ByteView data) {
  SPACE_TRY(json::value frame, Api::parse(as_text(data)));
  if (text_of(frame, "type") != "error") return frame;
  const auto* error = member(frame, "error");
  return Api::error_from(error == nullptr ? json::value() : *error);
}

Task<Result<void>> from_session(std::shared_ptr<Link> link) {
  boost::system::error_code error;
  for (;;) {
    SPACE_CO_TRY(auto message, co_await link->remote->read());
    if (!message) co_return Result<void>();
    if (message->binary) {
      co_await boost::asio::async_write(link->local,
                                        boost::asio::buffer(message->data.data(), message->data.size()),
                                        boost::asio::redirect_error(boost::asio::use_awaitable, error));
      if (error) co_return Result<void>();  // the local side has gone
      continue;
    }
    SPACE_CO_TRY(json::value frame, control_frame(message->data));
    if (text_of(frame, "type") == "end") link->local.shutdown(tcp::socket::shutdown_send, error);
  }
}

// Resource type; lives as long as the command.
class Forwarder {
 public:
  Forwarder(Context& context, std::string session)
      : context_(context),
        session_(std::move(session)),
        signals_(context.loop, SIGINT, SIGTERM, SIGHUP),
        changed_(context.loop.get_executor()),
        scope_(context.loop.get_executor()) {}

  Result<std::uint16_t> listen(PortPair pair) {
    tcp::acceptor acceptor(context_.loop);
    boost::system::error_code error;
    acceptor.open(tcp::v4(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind({boost::asio::ip::address_v4::loopback(), pair.local}, error);
    if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
    if (error) {
      return make_error(Code::kFailedPrecondition, "cli.port",
                        "cannot listen on 127.0.0.1:" + std::to_string(pair.local) + ": " + error.message() +
                            "; 0:" + std::to_string(pair.remote) + " takes any free port");
    }
    std::uint16_t bound = acceptor.local_endpoint().port();
    acceptors_.push_back(std::make_unique<tcp::acceptor>(std::move(acceptor)));
    remotes_.push_back(pair.remote);
    return bound;
  }

  // Until a signal.
  Task<void> run() {
    for (std::size_t i = 0; i < acceptors_.size(); ++i) scope_.spawn(accept(*acceptors_[i], remotes_[i]));
    boost::system::error_code ignored;
    co_await signals_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
    co_await scope_.stop();
  }

 private:
  Task<void> accept(tcp::acceptor& acceptor, std::uint16_t remote) {
    for (;;) {
      while (open_ >= kMaxConnections) co_await changed_.wait();
      boost::system::error_code error;
      tcp::socket socket =
          co_await acceptor.async_accept(boost::asio::redirect_error(boost::asio::use_awaitable, error));
      if (error) {  // out of descriptors, or a client that left in the queue
        co_await async::sleep_for(std::chrono::milliseconds(50));
        continue;
      }
      scope_.spawn(serve(std::move(socket), remote));
    }
  }

  Task<void> serve(tcp::socket socket, std::uint16_t remote) {
    struct Count {
      Forwarder& owner;
      explicit Count(Forwarder& f) : owner(f) { ++owner.open_; }
      ~Count() {
        --owner.open_;
        owner.changed_.notify_all();
      }
    } count(*this);
    boost::system::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    auto opened = co_await open(remote);
    if (!opened.ok()) {
      refuse(socket, remote, opened.error());
      co_return;
    }
    auto link = std::make_shared<Link>(std::move(socket), std::move(opened).value());
    async::TaskScope upward(context_.loop.get_executor());
    upward.spawn(to_session(link));
    auto ended = co_await from_session(link);
    if (!ended.ok()) refuse(link->local, remote, ended.error());
    upward.cancel_all();
    link->local.close(ignored);
  }

  // Connected to the port in the session.
  Task<Result<std::unique_ptr<WebSocket>>> open(std::uint16_t remote) {
    SPACE_CO_TRY(auto upgrade, co_await context_.api.client().upgrade("/v1" + session_target(session_) +
                                                                      "/ports/" + std::to_string(remote)));
    if (upgrade.socket == nullptr) co_return Api::error_from(upgrade.declined);
    SPACE_CO_TRY(auto first, co_await upgrade.socket->read());
    if (!first || first->binary)
      co_return make_error(Code::kUnavailable, "cli.bad_answer", "the server ended the connection");
    SPACE_CO_TRY(json::value frame, control_frame(first->data));
    if (text_of(frame, "type") != "connected")
      co_return make_error(Code::kInternal, "cli.bad_answer", "unexpected frame");
    co_return std::move(upgrade.socket);
  }

  // Ends a local connection with a reset, so that its client can't take it for a clean end.
  void refuse(tcp::socket& socket, std::uint16_t remote, const Error& error) {
    boost::system::error_code ignored;
    socket.set_option(tcp::socket::linger(true, 0), ignored);
    socket.close(ignored);
    context_.note("port " + std::to_string(remote) + ": " + error.message + " (" + error.reason + ")");
  }

  Context& context_;
  std::string session_;
  boost::asio::signal_set signals_;
  std::vector<std::unique_ptr<tcp::acceptor>> acceptors_;
  std::vector<std::uint16_t> remotes_;
  std::size_t open_ = 0;
  async::Event changed_;
  async::TaskScope scope_;  // last: its tasks use the rest
};

Task<int> port_forward(Context& context, const ForwardOptions& options) {
  std::vector<PortPair> pairs;
  for (const auto& text : options.ports) {
    auto pair = parse_port_pair(text);
    if (!pair.ok()) co_return context.fail(pair.error());
    pairs.push_back(*pair);
  }
  // A session that isn't there is said now and not at the first connection.
  auto session = co_await context.api.get(session_target(options.session));
  if (!session.ok()) co_return context.fail(session.error());
  Forwarder forwarder(context, options.session);
  json::array bound;
  std::string lines;
  for (const auto& pair : pairs) {
    auto port = forwarder.listen(pair);
    if (!port.ok()) co_return context.fail(port.error());
    std::string local = "127.0.0.1:" + std::to_string(*port);
    lines += local + " -> " + options.session + ":" + std::to_string(pair.remote) + "\n";
    bound.push_back(
        json::object{{"id", std::to_string(pair.remote)}, {"local", local}, {"remote", pair.remote}});
  }
  if (context.json()) {
    context.print(json::value(std::move(bound)));
  } else {
    context.print(lines);
  }
  co_await forwarder.run();
  co_return kOk;
}

}  // namespace

void add_port_forward_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<ForwardOptions>();
  auto* command =
      app.add_subcommand("port-forward", "Forward ports of 127.0.0.1 into a session until interrupted");
  command->footer(
      "LOCAL defaults to the same number; 0:REMOTE or :REMOTE takes any free port. The bound ports are "
      "printed.");
  command->add_option("session", options->session, "Session id or name")->required();
  command->add_option("ports", options->ports, "[LOCAL:]REMOTE, any number of them")->required();
  command->callback([options, &invocation] {
    invocation.remote = [options](Context& c) { return port_forward(c, *options); };
  });
}

}  // namespace space::cli
