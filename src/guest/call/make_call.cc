// SPDX-License-Identifier: Apache-2.0
#include "guest/call/make_call.h"

#include <signal.h>

#include "guest/call/connect_call.h"
#include "guest/call/exec_call.h"
#include "guest/call/info_calls.h"
#include "guest/call/list_directory_call.h"
#include "guest/call/read_file_call.h"
#include "guest/call/watch_call.h"
#include "guest/call/write_file_call.h"
#include "guest/file/directory.h"
#include "guest/file/file_info.h"
#include "guest/file/path.h"

namespace space::guest {
namespace {

using Stop = const std::atomic<bool>&;

Result<void> signal_command(Services& services, const guestapi::SignalCommandT& request) {
  auto command = services.commands.find(request.command_id);
  if (!command) {
    return Error{Code::kNotFound, "guest.no_such_command",
                 "the sandbox has no command with the id " + escape(request.command_id, 64), "command_id"};
  }
  if (request.signal < 1 || request.signal > SIGRTMAX) {
    return field_error("signal", "guest.malformed_signal",
                       "a signal is a number from 1 to " + std::to_string(SIGRTMAX));
  }
  command->signal_tree(request.signal);
  return {};
}

// Ends with `answer()` at once.
std::shared_ptr<Call> immediate(CallHost& host, wire::StreamId stream, std::function<Result<void>()> answer) {
  return std::make_shared<ImmediateCall>(
      host, stream, [answer = std::move(answer)](ImmediateCall& call) { call.finish(answer()); });
}

// Answers on the pool with a status.
template <class Work>
std::shared_ptr<Call> job(CallHost& host, wire::StreamId stream, Services& services, Work work) {
  return std::make_shared<StatusCall>(host, stream, services, std::move(work));
}

}  // namespace

std::shared_ptr<Call> make_call(CallHost& host, wire::StreamId stream, Services& services, ByteView request) {
  auto unpacked = wire::unpack<guestapi::RequestT>(request);
  if (!unpacked.ok()) {
    auto error = std::make_shared<Error>(std::move(unpacked).error());
    return immediate(host, stream, [error]() -> Result<void> { return *error; });
  }
  // Shared, since std::function wants to be copyable and the object API's types are not.
  auto held = std::make_shared<guestapi::RequestT>(std::move(unpacked).value());
  auto& body = held->body;
  using Kind = guestapi::RequestBody;
  switch (body.type) {
    case Kind::Exec:
      return std::make_shared<ExecCall>(host, stream, services, std::move(*body.AsExec()));
    case Kind::Attach:
      return std::make_shared<AttachCall>(host, stream, services, std::move(*body.AsAttach()));
    case Kind::ListCommands:
      return std::make_shared<ListCommandsCall>(host, stream, services);
    case Kind::SignalCommand:
      return immediate(host, stream,
                       [held, &services] { return signal_command(services, *held->body.AsSignalCommand()); });
    case Kind::ReadFile:
      return std::make_shared<ReadFileCall>(host, stream, services, std::move(*body.AsReadFile()));
    case Kind::WriteFile:
      return std::make_shared<WriteFileCall>(host, stream, services, std::move(*body.AsWriteFile()));
    case Kind::ListDirectory:
      return std::make_shared<ListDirectoryCall>(host, stream, services, std::move(*body.AsListDirectory()));
    case Kind::StatFile:
      return std::make_shared<OneShotCall<guestapi::FileInfoT>>(
          host, stream, services, [held](Stop) -> Result<guestapi::FileInfoT> {
            const auto& stat = *held->body.AsStatFile();
            SPACE_CHECK_OK(check_path(stat.path));
            return stat_path(stat.path, stat.follow ? FollowLinks::kYes : FollowLinks::kNo);
          });
    case Kind::MoveFile:
      return job(host, stream, services, [held](Stop) -> Result<void> {
        const auto& move = *held->body.AsMoveFile();
        SPACE_CHECK_OK(check_path(move.from, "from"));
        SPACE_CHECK_OK(check_path(move.to, "to"));
        return move_file(move);
      });
    case Kind::RemoveFile:
      return job(host, stream, services, [held](Stop stop) -> Result<void> {
        SPACE_CHECK_OK(check_path(held->body.AsRemoveFile()->path));
        return remove_file(*held->body.AsRemoveFile(), stop);
      });
    case Kind::MakeDirectory:
      return job(host, stream, services, [held](Stop) -> Result<void> {
        SPACE_CHECK_OK(check_path(held->body.AsMakeDirectory()->path));
        return make_directory(*held->body.AsMakeDirectory());
      });
    case Kind::WatchFiles:
      return std::make_shared<WatchCall>(host, stream, services, std::move(*body.AsWatchFiles()));
    case Kind::Connect:
      return std::make_shared<ConnectCall>(host, stream, services, body.AsConnect()->port);
    case Kind::Hello:
      return std::make_shared<ImmediateCall>(host, stream, [&services](ImmediateCall& call) {
        call.send(hello(services));
        call.finish({});
      });
    case Kind::GetMetrics:
      return std::make_shared<OneShotCall<guestapi::MetricsT>>(
          host, stream, services, [](Stop) -> Result<guestapi::MetricsT> { return metrics(); });
    case Kind::Shutdown: {
      auto action = body.AsShutdown()->reboot ? PowerAction::kReboot : PowerAction::kOff;
      return immediate(host, stream, [&services, action]() -> Result<void> {
        services.power(action);
        return {};
      });
    }
    case Kind::NONE:
      break;
  }
  return immediate(host, stream, []() -> Result<void> {
    return make_error(Code::kUnimplemented, "guest.unknown_request",
                      "the daemon in the sandbox does not know this request; it may be older");
  });
}

}  // namespace space::guest
