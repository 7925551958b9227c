// SPDX-License-Identifier: Apache-2.0
#include "guest/call/exec_call.h"

#include <signal.h>

#include <algorithm>

namespace space::guest {
namespace {

constexpr std::size_t kMaxIdBytes = 128;

Result<CommandRequest> checked(guestapi::ExecT& exec) {
  auto bad = [](const char* field, const char* message) {
    return field_error(field, "guest.malformed_command", message);
  };
  auto has_zero = [](const std::string& text) { return text.find('\0') != std::string::npos; };
  if (exec.command_id.empty() || exec.command_id.size() > kMaxIdBytes)
    return bad("command_id", "a command needs an id of 1 to 128 characters");
  if (exec.argv.empty() || exec.argv.front().empty())
    return bad("argv", "a command needs at least the name of a program");
  if (std::any_of(exec.argv.begin(), exec.argv.end(), has_zero))
    return bad("argv", "an argument may not hold a zero byte");
  if (has_zero(exec.cwd)) return bad("cwd", "a path may not hold a zero byte");
  CommandRequest request;
  for (auto& var : exec.env) request.env.emplace_back(std::move(var->name), std::move(var->value));
  SPACE_CHECK_OK(check_environment(request.env));
  request.id = exec.command_id;
  request.argv = std::move(exec.argv);
  request.cwd = std::move(exec.cwd);
  request.user = std::move(exec.user);
  if (exec.pty) {
    request.pty = PtySize{exec.pty->rows, exec.pty->cols};
    request.term = exec.pty->term;
    if (has_zero(request.term)) return bad("pty.term", "a terminal's name may not hold a zero byte");
  }
  request.open_stdin = exec.open_stdin;
  request.timeout = std::chrono::milliseconds(std::min<std::uint64_t>(exec.timeout_ms, 1ULL << 40));
  return request;
}

}  // namespace

guestapi::ExitedT exited_message(const ExitRecord& record) {
  guestapi::ExitedT message;
  message.exit_code = record.exit_code;
  message.signal = record.signal;
  message.timed_out = record.timed_out;
  message.out_of_memory = record.out_of_memory;
  message.duration_ms = static_cast<std::uint64_t>(record.duration.count());
  return message;
}

void CommandCall::on_message(ByteView message) {
  auto control = wire::unpack<guestapi::ControlT>(message);
  consumed_message(message.size());
  if (!control.ok()) return finish(std::move(control).error());
  if (!command_) return;
  if (const auto* resize = control->body.AsResize()) {
    command_->resize({resize->rows, resize->cols});
  } else if (const auto* signal = control->body.AsSignal()) {
    if (signal->signal > 0 && signal->signal <= SIGRTMAX) command_->signal_group(signal->signal);
  }
}

void CommandCall::on_data(std::uint8_t channel, ByteView data) {
  if (channel != 0 || !command_) return consumed(data.size());
  command_->write_input(data);
}

void CommandCall::on_host_end() {
  if (command_) command_->end_input();
}

void CommandCall::on_start_failed(const Error& error) {
  command_.reset();
  finish(error);
}

void CommandCall::on_replaced() {
  command_.reset();
  finish(make_error(Code::kAborted, "guest.attachment_replaced", "another attachment took over the command"));
}

bool CommandCall::pump_more() {
  if (!command_ || !announced_ || finishing()) return false;
  // At most one turn's bytes, shared by both streams so that neither hides the other.
  std::size_t sent = 0;
  for (int stream = 0; stream < Command::kStreams; ++stream) {
    auto& output = command_->output(stream);
    std::size_t took = send_data(static_cast<std::uint8_t>(stream + 1), output.next());
    output.take(took);
    sent += took;
  }
  bool empty = command_->output(0).next().empty() && command_->output(1).next().empty();
  if (empty && command_->exit() && !exit_sent_) {
    exit_sent_ = true;
    send(exited_message(*command_->exit()));
    finish({});
    command_->drop_viewer(*this);
    command_.reset();
    return false;
  }
  return sent != 0 && !empty;
}

void CommandCall::on_detached() {
  if (command_) command_->drop_viewer(*this);
  command_.reset();
}

void ExecCall::start() {
  auto request = checked(request_);
  if (!request.ok()) return finish(std::move(request).error());
  auto command = services_.commands.start(std::move(request).value(), *this);
  if (!command.ok()) return finish(std::move(command).error());
  if (!finishing()) follow(std::move(command).value());  // it may have failed at once
}

void ExecCall::on_started(pid_t pid) {
  guestapi::StartedT started;
  started.pid = static_cast<std::uint32_t>(pid);
  send(std::move(started));
  announced_ = true;
  want_pump();
  if (!request_.detached) return;
  command_->drop_viewer(*this);
  command_.reset();
  finish({});
}

void AttachCall::start() {
  auto command = services_.commands.find(request_.command_id);
  if (!command) {
    return finish(Error{Code::kNotFound, "guest.no_such_command",
                        "the sandbox has no command with the id " + escape(request_.command_id, 64),
                        "command_id"});
  }
  command->set_viewer(*this, request_.stdout_from, request_.stderr_from);
  guestapi::AttachedT attached;
  attached.pid = static_cast<std::uint32_t>(command->pid());
  attached.pty = command->request().pty.has_value();
  attached.stdout_from = command->output(0).watched_offset();
  attached.stderr_from = command->output(1).watched_offset();
  send(std::move(attached));
  announced_ = true;
  follow(std::move(command));
  want_pump();
}

}  // namespace space::guest
