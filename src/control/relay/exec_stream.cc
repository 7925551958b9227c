// SPDX-License-Identifier: Apache-2.0
#include "control/relay/exec_stream.h"

#include <array>

#include "control/api/parse.h"
#include "control/api/render.h"

namespace space::control::relay {

guestapi::RequestT exec_request(const model::CommandRequest& command) {
  guestapi::ExecT exec;
  exec.command_id = command.command_id;
  exec.argv = command.argv;
  for (const auto& [name, value] : command.env) {
    auto variable = std::make_unique<guestapi::EnvVarT>();
    variable->name = name;
    variable->value = value;
    exec.env.push_back(std::move(variable));
  }
  exec.cwd = command.cwd;
  exec.user = command.user;
  if (command.pty) {
    exec.pty = std::make_unique<guestapi::PtyT>();
    exec.pty->rows = static_cast<std::uint16_t>(command.pty->rows);
    exec.pty->cols = static_cast<std::uint16_t>(command.pty->cols);
    exec.pty->term = command.pty->term;
  }
  exec.open_stdin = command.open_stdin;
  exec.timeout_ms = command.timeout_ms;
  exec.detached = command.detached;
  guestapi::RequestT request;
  request.body.Set(std::move(exec));
  return request;
}

async::Task<Result<Duplex::Next>> ExecStream::on_guest(upstream::GuestEvent event) {
  if (auto* data = std::get_if<rpc::Data>(&event)) {
    if (data->channel != 1 && data->channel != 2) {
      co_return co_await fail(make_error(Code::kDataLoss, "wire.unexpected_message",
                                         "the guest sent on a channel that does not exist"));
    }
    std::array<std::byte, 1> channel{static_cast<std::byte>(data->channel)};
    SPACE_CO_CHECK_OK(co_await socket().send_binary(channel, data->bytes));
    co_return Next::kGoOn;
  }
  if (auto* reply = std::get_if<guestapi::ReplyT>(&event)) {
    if (auto* started = reply->body.AsStarted())
      SPACE_CO_CHECK_OK(co_await socket().send_text(api::started_frame(command_id_, started->pid)));
    if (auto* attached = reply->body.AsAttached())
      SPACE_CO_CHECK_OK(co_await socket().send_text(api::attached_frame(*attached)));
    if (auto* exited = reply->body.AsExited()) {
      exited_ = true;
      SPACE_CO_CHECK_OK(co_await socket().send_text(api::exited_frame(*exited)));
    }
    co_return Next::kGoOn;
  }
  const auto& end = std::get<rpc::End>(event);
  if (!end.status.ok()) co_return co_await fail(end.status.error());
  if (exited_ || detached_) co_return Next::kDone;
  co_return co_await fail(make_error(Code::kDataLoss, "control.no_exit_status",
                                     "the command's stream ended without an exit status"));
}

async::Task<Result<void>> ExecStream::on_client(http::WebSocketMessage message) {
  if (message.kind == http::WebSocketMessage::Kind::kBinary) {
    if (message.data.empty() || message.data[0] != '\0') {
      co_return make_error(Code::kInvalidArgument, "control.bad_frame",
                           "a binary frame begins with a byte 0, for stdin");
    }
    ByteView bytes = as_bytes(message.data).subspan(1);
    co_return co_await guest().send_data(bytes);
  }
  SPACE_CO_TRY(auto frame, api::parse_client_frame(message.data));
  guestapi::ControlT control;
  switch (frame.kind) {
    case api::ClientFrame::Kind::kStdinEnd:
      guest().end();
      co_return Result<void>();
    case api::ClientFrame::Kind::kResize: {
      guestapi::ResizeT resize;
      resize.rows = frame.rows;
      resize.cols = frame.cols;
      control.body.Set(resize);
      break;
    }
    case api::ClientFrame::Kind::kSignal: {
      guestapi::SignalT signal;
      signal.signal = static_cast<std::int32_t>(frame.signal);
      control.body.Set(signal);
      break;
    }
    case api::ClientFrame::Kind::kEnd:
      co_return make_error(Code::kInvalidArgument, "control.bad_frame",
                           "a command's input is ended by stdin_end");
  }
  co_return co_await guest().send_control(std::move(control));
}

}  // namespace space::control::relay
