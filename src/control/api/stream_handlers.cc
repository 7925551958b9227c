// SPDX-License-Identifier: Apache-2.0
// Handlers that become WebSockets. After the upgrade every error is a frame.
#include <boost/asio/experimental/awaitable_operators.hpp>

#include "control/api/guest_handlers.h"
#include "control/api/parse.h"
#include "control/relay/exec_stream.h"
#include "control/relay/port_stream.h"
#include "lib/async/deadline.h"
#include "model/command.h"

namespace space::control::api {
namespace {

constexpr auto kFirstFrameTime = std::chrono::seconds(30);
constexpr auto kStartTime = std::chrono::seconds(30);

// The upgraded socket, or nothing when the request was answered otherwise.
async::Task<std::unique_ptr<http::WebSocket>> upgrade(Call& call) {
  if (!call.exchange.wants_websocket()) {
    auto response = error_response(make_error(Code::kInvalidArgument, "http.upgrade_required",
                                              "this is a WebSocket; send an Upgrade request"));
    response.headers.set("Upgrade", "websocket");
    (co_await call.exchange.respond(std::move(response))).ignore("the client has gone");
    co_return nullptr;
  }
  auto socket = co_await call.exchange.upgrade();
  if (!socket.ok()) {
    co_await reply_error(call, socket.error());
    co_return nullptr;
  }
  co_return std::move(*socket);
}

async::Task<Result<http::WebSocketMessage>> receive(http::WebSocket* socket) {
  return socket->receive();
}

// What exec is asked to do comes in the first frame.
async::Task<Result<model::CommandRequest>> first_frame(http::WebSocket* socket) {
  SPACE_CO_TRY(auto message,
               co_await async::with_deadline(receive(socket), kFirstFrameTime, "control.no_first_frame",
                                             "the first frame did not arrive in time"));
  if (message.kind != http::WebSocketMessage::Kind::kText) {
    co_return make_error(Code::kInvalidArgument, "control.bad_frame",
                         "the first frame must be text and say what to run");
  }
  co_return parse_command(message.data);
}

async::Task<Result<upstream::Opened>> open_in(Call& call, guestapi::RequestT request) {
  SPACE_CO_TRY(auto session, co_await running_session(call));
  co_return co_await call.services.link.open(session.sandbox, std::move(request), kStartTime);
}

}  // namespace

async::Task<void> exec(Call& call) {
  auto socket = co_await upgrade(call);
  if (!socket) co_return;
  auto command = co_await first_frame(socket.get());
  if (!command.ok()) co_return co_await relay::refuse(*socket, command.error());
  if (command->command_id.empty()) command->command_id = call.services.random.id_text();
  auto opened = co_await open_in(call, relay::exec_request(*command));
  if (!opened.ok()) co_return co_await relay::refuse(*socket, opened.error());
  co_await relay::Duplex::run(std::make_shared<relay::ExecStream>(std::move(socket), std::move(*opened),
                                                                  command->command_id, command->detached));
}

async::Task<void> attach(Call& call) {
  auto socket = co_await upgrade(call);
  if (!socket) co_return;
  guestapi::AttachT attach;
  attach.command_id = call.path["command"];
  auto stdout_from = number_parameter(call, "stdout_from");
  auto stderr_from = number_parameter(call, "stderr_from");
  auto id = model::check_command_id(attach.command_id);
  if (!id.ok()) co_return co_await relay::refuse(*socket, id.error());
  if (!stdout_from.ok()) co_return co_await relay::refuse(*socket, stdout_from.error());
  if (!stderr_from.ok()) co_return co_await relay::refuse(*socket, stderr_from.error());
  attach.stdout_from = stdout_from->value_or(0);
  attach.stderr_from = stderr_from->value_or(0);
  guestapi::RequestT request;
  request.body.Set(attach);
  auto opened = co_await open_in(call, std::move(request));
  if (!opened.ok()) co_return co_await relay::refuse(*socket, opened.error());
  co_await relay::Duplex::run(
      std::make_shared<relay::ExecStream>(std::move(socket), std::move(*opened), attach.command_id, false));
}

async::Task<void> connect_port(Call& call) {
  auto socket = co_await upgrade(call);
  if (!socket) co_return;
  auto port = model::parse_port(call.path["port"]);
  if (!port.ok()) co_return co_await relay::refuse(*socket, port.error());
  guestapi::ConnectT connect;
  connect.port = *port;
  guestapi::RequestT request;
  request.body.Set(connect);
  auto opened = co_await open_in(call, std::move(request));
  if (!opened.ok()) co_return co_await relay::refuse(*socket, opened.error());
  co_await relay::Duplex::run(std::make_shared<relay::PortStream>(std::move(socket), std::move(*opened)));
}

async::Task<void> watch_files(Call& call) {
  auto socket = co_await upgrade(call);
  if (!socket) co_return;
  auto path = path_parameter(call);
  if (!path.ok()) co_return co_await relay::refuse(*socket, path.error());
  auto recursive = flag_parameter(call, "recursive", false);
  if (!recursive.ok()) co_return co_await relay::refuse(*socket, recursive.error());
  guestapi::WatchFilesT watch;
  watch.path = *path;
  watch.recursive = *recursive;
  guestapi::RequestT request;
  request.body.Set(std::move(watch));
  auto opened = co_await open_in(call, std::move(request));
  if (!opened.ok()) co_return co_await relay::refuse(*socket, opened.error());
  co_await relay::Duplex::run(std::make_shared<relay::WatchStream>(std::move(socket), std::move(*opened)));
}

}  // namespace space::control::api
