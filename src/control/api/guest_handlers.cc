// SPDX-License-Identifier: Apache-2.0
#include "control/api/guest_handlers.h"

#include "control/api/parse.h"
#include "control/relay/exec_stream.h"
#include "control/relay/file_transfer.h"
#include "model/command.h"

namespace space::control::api {
namespace {

// A recursive removal of a large tree takes the guest a while.
constexpr auto kSlow = std::chrono::minutes(5);
constexpr auto kQuick = std::chrono::seconds(30);

Error unexpected() {
  return make_error(Code::kDataLoss, "wire.unexpected_message", "the guest sent another kind of answer");
}

async::Task<Result<std::vector<guestapi::CommandInfoT>>> commands_of(const Services* services,
                                                                     SandboxId sandbox) {
  guestapi::RequestT request;
  request.body.Set(guestapi::ListCommandsT());
  SPACE_CO_TRY(auto opened, co_await services->link.open(std::move(sandbox), std::move(request)));
  std::vector<guestapi::CommandInfoT> all;
  upstream::GuestEvent event = std::move(opened.first);
  for (;;) {
    if (auto* end = std::get_if<rpc::End>(&event)) {
      if (!end->status.ok()) co_return end->status.error();
      co_return all;
    }
    auto* reply = std::get_if<guestapi::ReplyT>(&event);
    auto* info = reply == nullptr ? nullptr : reply->body.AsCommandInfo();
    if (info == nullptr) co_return unexpected();
    all.push_back(std::move(*info));
    SPACE_CO_TRY(event, co_await opened.call.next_within(kQuick));
  }
}

async::Task<Result<std::string>> command_named(const Services* services, SandboxId sandbox, std::string id) {
  SPACE_CO_TRY(auto all, co_await commands_of(services, std::move(sandbox)));
  for (const auto& info : all) {
    if (info.command_id == id) co_return command_json(info);
  }
  co_return make_error(Code::kNotFound, "guest.no_such_command", "the sandbox has no command with this id");
}

// Starts the command and says what became of it. `repeated`: an earlier try may have started it already.
async::Task<Result<Answer>> run_detached(const Services* services, SandboxId sandbox,
                                         model::CommandRequest command, bool repeated) {
  auto opened = co_await services->link.open(sandbox, relay::exec_request(command), kQuick);
  if (!opened.ok() && !(repeated && opened.error().reason == "guest.command_exists"))
    co_return std::move(opened).error();
  SPACE_CO_TRY(std::string body, co_await command_named(services, std::move(sandbox), command.command_id));
  co_return Answer{201, std::move(body)};
}

// A request to the guest that is answered by its end alone.
async::Task<Result<Answer>> ask_plain(const Services* services, SandboxId sandbox,
                                      guestapi::RequestT request) {
  SPACE_CO_CHECK_OK(co_await services->link.ask(std::move(sandbox), std::move(request), kSlow));
  co_return Answer{204, {}};
}

async::Task<void> reply_answer(Call& call, Result<Answer> answer) {
  if (!answer.ok()) co_return co_await reply_error(call, answer.error());
  if (answer->status == 204) co_return co_await reply_empty(call);
  co_await reply(call, answer->status, std::move(answer->body));
}

// Does what changes something in a guest, once per idempotency key.
template <class Body>
async::Task<void> change_guest(Call& call, Body body, std::string same) {
  auto key = idempotency_key(call, same);
  if (!key.ok()) co_return co_await reply_error(call, key.error());
  auto session = co_await running_session(call);
  if (!session.ok()) co_return co_await reply_error(call, session.error());
  guestapi::RequestT request;
  request.body.Set(std::move(body));
  co_await reply_answer(
      call, co_await call.services.remembered.once(
                call.tenant, *key, ask_plain(&call.services, session->sandbox, std::move(request))));
}

async::Task<Result<Answer>> accept_command(Call& call) {
  SPACE_CO_TRY(std::string body, co_await read_json(call));
  SPACE_CO_TRY(auto command, parse_command(body));
  SPACE_CO_TRY(std::string same, canonical(body));
  SPACE_CO_TRY(auto key, idempotency_key(call, same));
  SPACE_CO_TRY(auto session, co_await running_session(call));
  command.detached = true;
  bool chosen = !command.command_id.empty();
  // The id comes from the key, so that a second try after a crash meets the first one's command.
  if (!chosen)
    command.command_id = key ? sha256_hex(call.tenant.str() + " " + key->key).substr(0, kIdLength)
                             : call.services.random.id_text();
  bool repeated = key.has_value() && !chosen;
  co_return co_await call.services.remembered.once(
      call.tenant, key, run_detached(&call.services, session.sandbox, std::move(command), repeated));
}

async::Task<Result<guestapi::WriteFileT>> write_target(Call& call) {
  guestapi::WriteFileT target;
  SPACE_CO_TRY(target.path, path_parameter(call));
  std::string mode = text_parameter(call, "mode");
  if (!mode.empty()) {
    SPACE_CO_TRY(target.mode, model::parse_mode(mode));
  }
  target.user = text_parameter(call, "user");
  SPACE_CO_TRY(target.make_parents, flag_parameter(call, "parents", false));
  SPACE_CO_TRY(auto offset, number_parameter(call, "offset"));
  target.in_place = offset.has_value();
  target.offset = offset.value_or(0);
  co_return target;
}

async::Task<Result<std::string>> stat_in(Call& call) {
  guestapi::StatFileT stat;
  SPACE_CO_TRY(stat.path, path_parameter(call));
  SPACE_CO_TRY(stat.follow, flag_parameter(call, "follow", true));
  SPACE_CO_TRY(auto session, co_await running_session(call));
  guestapi::RequestT request;
  request.body.Set(std::move(stat));
  SPACE_CO_TRY(auto answer, co_await call.services.link.ask(session.sandbox, std::move(request)));
  auto* info = answer.body.AsFileInfo();
  if (info == nullptr) co_return unexpected();
  co_return file_json(*info);
}

async::Task<Result<std::string>> metrics_in(Call& call) {
  SPACE_CO_TRY(auto session, co_await running_session(call));
  guestapi::RequestT request;
  request.body.Set(guestapi::GetMetricsT());
  SPACE_CO_TRY(auto answer, co_await call.services.link.ask(session.sandbox, std::move(request)));
  auto* metrics = answer.body.AsMetrics();
  if (metrics == nullptr) co_return unexpected();
  co_return metrics_json(*metrics);
}

async::Task<Result<std::string>> command_page(Call& call) {
  SPACE_CO_TRY(auto session, co_await running_session(call));
  SPACE_CO_TRY(auto all, co_await commands_of(&call.services, session.sandbox));
  std::vector<std::string> items;
  for (const auto& info : all) items.push_back(command_json(info));
  co_return list_json(items, std::nullopt);
}

async::Task<Result<std::string>> one_command(Call& call) {
  SPACE_CO_CHECK_OK(model::check_command_id(call.path["command"]));
  SPACE_CO_TRY(auto session, co_await running_session(call));
  co_return co_await command_named(&call.services, session.sandbox, call.path["command"]);
}

async::Task<void> reply_result(Call& call, Result<std::string> body) {
  if (!body.ok()) co_return co_await reply_error(call, body.error());
  co_await reply(call, 200, std::move(*body));
}

}  // namespace

async::Task<void> start_command(Call& call) {
  co_await reply_answer(call, co_await accept_command(call));
}
async::Task<void> list_commands(Call& call) {
  co_await reply_result(call, co_await command_page(call));
}
async::Task<void> get_command(Call& call) {
  co_await reply_result(call, co_await one_command(call));
}

async::Task<void> signal_command(Call& call) {
  auto body = co_await read_json(call);
  if (!body.ok()) co_return co_await reply_error(call, body.error());
  auto signal = parse_signal(*body);
  if (!signal.ok()) co_return co_await reply_error(call, signal.error());
  auto id = model::check_command_id(call.path["command"]);
  if (!id.ok()) co_return co_await reply_error(call, id.error());
  guestapi::SignalCommandT request;
  request.command_id = call.path["command"];
  request.signal = static_cast<std::int32_t>(*signal);
  co_await change_guest(call, std::move(request), std::to_string(*signal));
}

async::Task<void> read_file(Call& call) {
  auto path = path_parameter(call);
  if (!path.ok()) co_return co_await reply_error(call, path.error());
  auto session = co_await running_session(call);
  if (!session.ok()) co_return co_await reply_error(call, session.error());
  co_await relay::download(call, std::move(*session), std::move(*path));
}

async::Task<void> write_file(Call& call) {
  auto target = co_await write_target(call);
  if (!target.ok()) co_return co_await reply_error(call, target.error());
  auto session = co_await running_session(call);
  if (!session.ok()) co_return co_await reply_error(call, session.error());
  co_await relay::upload(call, std::move(*session), std::move(*target));
}

async::Task<void> remove_file(Call& call) {
  auto path = path_parameter(call);
  if (!path.ok()) co_return co_await reply_error(call, path.error());
  auto recursive = flag_parameter(call, "recursive", false);
  if (!recursive.ok()) co_return co_await reply_error(call, recursive.error());
  guestapi::RemoveFileT request;
  request.path = *path;
  request.recursive = *recursive;
  co_await change_guest(call, std::move(request), "");
}

async::Task<void> stat_file(Call& call) {
  co_await reply_result(call, co_await stat_in(call));
}

async::Task<void> list_files(Call& call) {
  auto path = path_parameter(call);
  if (!path.ok()) co_return co_await reply_error(call, path.error());
  auto session = co_await running_session(call);
  if (!session.ok()) co_return co_await reply_error(call, session.error());
  co_await relay::list_directory(call, std::move(*session), std::move(*path));
}

async::Task<void> move_file(Call& call) {
  auto body = co_await read_json(call);
  if (!body.ok()) co_return co_await reply_error(call, body.error());
  auto move = parse_move(*body);
  if (!move.ok()) co_return co_await reply_error(call, move.error());
  auto same = canonical(*body);
  if (!same.ok()) co_return co_await reply_error(call, same.error());
  guestapi::MoveFileT request;
  request.from = move->from;
  request.to = move->to;
  request.overwrite = move->overwrite;
  co_await change_guest(call, std::move(request), *same);
}

async::Task<void> make_directory(Call& call) {
  auto body = co_await read_json(call);
  if (!body.ok()) co_return co_await reply_error(call, body.error());
  auto made = parse_mkdir(*body);
  if (!made.ok()) co_return co_await reply_error(call, made.error());
  auto same = canonical(*body);
  if (!same.ok()) co_return co_await reply_error(call, same.error());
  guestapi::MakeDirectoryT request;
  request.path = made->path;
  request.mode = made->mode;
  request.parents = made->parents;
  request.user = made->user;
  co_await change_guest(call, std::move(request), *same);
}

async::Task<void> get_metrics(Call& call) {
  co_await reply_result(call, co_await metrics_in(call));
}

async::Task<void> get_logs(Call& call) {
  auto follow = flag_parameter(call, "follow", false);
  if (!follow.ok()) co_return co_await reply_error(call, follow.error());
  auto session = co_await session_of(call);
  if (!session.ok()) co_return co_await reply_error(call, session.error());
  co_await relay::console(call, std::move(*session), *follow);
}

}  // namespace space::control::api
