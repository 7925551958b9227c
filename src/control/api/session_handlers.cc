// SPDX-License-Identifier: Apache-2.0
#include "control/api/session_handlers.h"

#include "control/api/parse.h"
#include "control/meta/operations.h"
#include "control/meta/sessions.h"

namespace space::control::api {
namespace {

// What a waiting request was told: the error of its operation, or the session as it is now.
async::Task<Result<meta::SessionRow>> outcome_of(Call& call, operations::Accepted accepted) {
  if (accepted.operation) {
    SPACE_CO_TRY(auto operation, co_await call.services.engine.wait(call.tenant, *accepted.operation));
    if (operation.error) co_return *operation.error;
  }
  TenantId tenant = call.tenant;
  std::string id = accepted.session.id.str();
  co_return co_await call.services.store.read(
      [tenant, id](meta::Database& database) { return meta::get_session(database, tenant, id); });
}

async::Task<void> reply_session(Call& call, operations::Accepted accepted, bool wait, unsigned done,
                                unsigned pending) {
  std::string operation = accepted.operation ? accepted.operation->str() : std::string();
  std::string session = accepted.session.id.str();
  if (!wait && accepted.operation) {
    co_await reply(call, pending, session_json(accepted.session), operation);
    co_return;
  }
  auto outcome = co_await outcome_of(call, std::move(accepted));
  if (!outcome.ok()) {
    co_await reply_error(call, outcome.error(), {session, operation});
  } else {
    co_await reply(call, done, session_json(*outcome), operation);
  }
}

async::Task<Result<operations::Accepted>> accept_create(Call& call) {
  SPACE_CO_TRY(std::string body, co_await read_json(call));
  SPACE_CO_TRY(auto request, parse_session_request(body));
  SPACE_CO_TRY(std::string same, canonical(body));
  SPACE_CO_TRY(auto key, idempotency_key(call, same));
  SPACE_CO_CHECK_OK(model::check_request(request));
  co_return co_await call.services.engine.create_session(call.tenant, std::move(request), std::move(key));
}

async::Task<Result<operations::Accepted>> accept_kill(Call& call) {
  SPACE_CO_TRY(auto key, idempotency_key(call, ""));
  co_return co_await call.services.engine.kill_session(call.tenant, call.path["session"],
                                                       operations::kKilledByRequest, std::move(key));
}

Result<meta::SessionFilter> session_filter(const Call& call) {
  meta::SessionFilter filter;
  std::string states = text_parameter(call, "state");
  for (std::size_t at = 0; !states.empty() && at <= states.size();) {
    auto comma = std::min(states.find(',', at), states.size());
    SPACE_TRY(auto state, model::parse_session_state(std::string_view(states).substr(at, comma - at)));
    filter.states.push_back(state);
    at = comma + 1;
  }
  std::string name = text_parameter(call, "name");
  if (!name.empty()) filter.name = name;
  return filter;
}

async::Task<Result<std::string>> session_page(Call& call) {
  SPACE_CO_TRY(auto filter, session_filter(call));
  SPACE_CO_TRY(Page page, page_parameters(call));
  TenantId tenant = call.tenant;
  SPACE_CO_TRY(auto rows, co_await call.services.store.read([tenant, filter, page](meta::Database& database) {
    return meta::list_sessions(database, tenant, filter, page.after, page.size + 1);
  }));
  std::optional<std::string> next;
  if (rows.size() > page.size) {
    rows.pop_back();
    next = page_token(meta::to_us(rows.back().created), rows.back().id.str());
  }
  std::vector<std::string> items;
  for (const auto& row : rows) items.push_back(session_json(row));
  co_return list_json(items, next);
}

struct OperationWithSteps {
  meta::OperationRow row;
  std::vector<meta::StepRow> steps;
};

Result<OperationWithSteps> with_steps(meta::Database& database, const TenantId& tenant,
                                      meta::OperationRow row) {
  OperationWithSteps whole{std::move(row), {}};
  SPACE_TRY(whole.steps, meta::list_steps(database, tenant, whole.row.id));
  return whole;
}

async::Task<Result<std::string>> operation_page(Call& call) {
  SPACE_CO_TRY(Page page, page_parameters(call));
  TenantId tenant = call.tenant;
  std::string of = text_parameter(call, "session");
  SPACE_CO_TRY(auto rows, co_await call.services.store.read([tenant, of, page](meta::Database& database)
                                                                -> Result<std::vector<OperationWithSteps>> {
    std::optional<SessionId> session;
    if (!of.empty()) {
      SPACE_TRY(auto row, meta::get_session(database, tenant, of));
      session = row.id;
    }
    SPACE_TRY(auto operations, meta::list_operations(database, tenant, session, page.after, page.size + 1));
    std::vector<OperationWithSteps> all;
    for (auto& row : operations) {
      SPACE_TRY(auto whole, with_steps(database, tenant, std::move(row)));
      all.push_back(std::move(whole));
    }
    return all;
  }));
  std::optional<std::string> next;
  if (rows.size() > page.size) {
    rows.pop_back();
    next = page_token(meta::to_us(rows.back().row.created), rows.back().row.id.str());
  }
  std::vector<std::string> items;
  for (const auto& whole : rows) items.push_back(operation_json(whole.row, whole.steps));
  co_return list_json(items, next);
}

async::Task<Result<std::string>> one_operation(Call& call, OperationId id) {
  TenantId tenant = call.tenant;
  SPACE_CO_TRY(auto whole, co_await call.services.store.read(
                               [tenant, id](meta::Database& database) -> Result<OperationWithSteps> {
                                 SPACE_TRY(auto row, meta::get_operation(database, tenant, id));
                                 return with_steps(database, tenant, std::move(row));
                               }));
  co_return operation_json(whole.row, whole.steps);
}

async::Task<Result<std::string>> one_template(Call& call, std::string name) {
  SPACE_CO_TRY(auto all, co_await call.services.engine.templates());
  for (const auto& one : all) {
    if (one.name == name) co_return template_json(one);
  }
  co_return make_error(Code::kNotFound, "control.no_such_template",
                       "there is no template or recipe of this name");
}

async::Task<void> reply_result(Call& call, Result<std::string> body) {
  if (body.ok()) {
    co_await reply(call, 200, std::move(*body));
  } else {
    co_await reply_error(call, body.error());
  }
}

async::Task<Result<std::pair<std::string, OperationId>>> accept_build(Call& call) {
  SPACE_CO_TRY(std::string body, co_await read_json(call));
  SPACE_CO_TRY(std::string name, parse_template_name(body));
  SPACE_CO_TRY(std::string same, canonical(body));
  SPACE_CO_TRY(auto key, idempotency_key(call, same));
  SPACE_CO_TRY(OperationId operation,
               co_await call.services.engine.build_template(call.tenant, name, std::move(key)));
  co_return std::pair(std::move(name), std::move(operation));
}

async::Task<Result<OperationId>> accept_remove(Call& call) {
  SPACE_CO_TRY(auto key, idempotency_key(call, ""));
  co_return co_await call.services.engine.remove_template(call.tenant, call.path["template"], std::move(key));
}

}  // namespace

async::Task<void> create_session(Call& call) {
  auto wait = flag_parameter(call, "wait", true);
  if (!wait.ok()) co_return co_await reply_error(call, wait.error());
  auto accepted = co_await accept_create(call);
  if (!accepted.ok()) co_return co_await reply_error(call, accepted.error());
  co_await reply_session(call, std::move(*accepted), *wait, 201, 202);
}

async::Task<void> kill_session(Call& call) {
  auto wait = flag_parameter(call, "wait", true);
  if (!wait.ok()) co_return co_await reply_error(call, wait.error());
  auto accepted = co_await accept_kill(call);
  if (!accepted.ok()) co_return co_await reply_error(call, accepted.error());
  co_await reply_session(call, std::move(*accepted), *wait, 200, 202);
}

async::Task<void> list_sessions(Call& call) {
  co_await reply_result(call, co_await session_page(call));
}

async::Task<void> get_session(Call& call) {
  auto row = co_await session_of(call);
  if (!row.ok()) co_return co_await reply_error(call, row.error());
  co_await reply(call, 200, session_json(*row));
}

async::Task<void> change_session(Call& call) {
  auto body = co_await read_json(call);
  if (!body.ok()) co_return co_await reply_error(call, body.error());
  auto ttl = parse_ttl(*body);
  if (!ttl.ok()) co_return co_await reply_error(call, ttl.error());
  auto row = co_await call.services.engine.extend_session(call.tenant, call.path["session"], *ttl);
  if (!row.ok()) co_return co_await reply_error(call, row.error());
  co_await reply(call, 200, session_json(*row));
}

async::Task<void> list_operations(Call& call) {
  co_await reply_result(call, co_await operation_page(call));
}

async::Task<void> get_operation(Call& call) {
  co_await reply_result(call, co_await one_operation(call, OperationId(call.path["operation"])));
}

async::Task<void> list_templates(Call& call) {
  auto all = co_await call.services.engine.templates();
  if (!all.ok()) co_return co_await reply_error(call, all.error());
  std::vector<std::string> items;
  for (const auto& one : *all) items.push_back(template_json(one));
  co_await reply(call, 200, list_json(items, std::nullopt));
}

async::Task<void> get_template(Call& call) {
  co_await reply_result(call, co_await one_template(call, call.path["template"]));
}

async::Task<void> build_template(Call& call) {
  auto wait = flag_parameter(call, "wait", false);
  if (!wait.ok()) co_return co_await reply_error(call, wait.error());
  auto accepted = co_await accept_build(call);
  if (!accepted.ok()) co_return co_await reply_error(call, accepted.error());
  std::string id = accepted->second.str();
  if (!*wait) {
    auto operation = co_await one_operation(call, accepted->second);
    if (!operation.ok()) co_return co_await reply_error(call, operation.error());
    co_return co_await reply(call, 202, std::move(*operation), id);
  }
  auto ended = co_await call.services.engine.wait(call.tenant, accepted->second);
  if (!ended.ok()) co_return co_await reply_error(call, ended.error(), {{}, id});
  if (ended->error) co_return co_await reply_error(call, *ended->error, {{}, id});
  auto built = co_await one_template(call, accepted->first);
  if (!built.ok()) co_return co_await reply_error(call, built.error(), {{}, id});
  co_await reply(call, 201, std::move(*built), id);
}

async::Task<void> remove_template(Call& call) {
  auto wait = flag_parameter(call, "wait", true);
  if (!wait.ok()) co_return co_await reply_error(call, wait.error());
  auto accepted = co_await accept_remove(call);
  if (!accepted.ok()) co_return co_await reply_error(call, accepted.error());
  if (!*wait) {
    auto operation = co_await one_operation(call, *accepted);
    if (!operation.ok()) co_return co_await reply_error(call, operation.error());
    co_return co_await reply(call, 202, std::move(*operation), accepted->str());
  }
  auto ended = co_await call.services.engine.wait(call.tenant, *accepted);
  if (!ended.ok()) co_return co_await reply_error(call, ended.error(), {{}, accepted->str()});
  if (ended->error) co_return co_await reply_error(call, *ended->error, {{}, accepted->str()});
  co_await reply_empty(call);
}

async::Task<void> get_node(Call& call) {
  const auto& watcher = call.services.watcher;
  auto info =
      watcher.connected() ? co_await call.services.engine.node_info() : Result<nodeapi::InfoT>(Error{});
  if (info.ok()) co_return co_await reply(call, 200, node_json(*info, true, watcher.recovery()));
  // What was known last is better than nothing.
  if (watcher.info())
    co_return co_await reply(call, 200, node_json(*watcher.info(), false, watcher.recovery()));
  co_await reply_error(call, make_error(Code::kUnavailable, "control.node_unknown",
                                        "the node agent has not been reached yet; try again"));
}

async::Task<void> get_health(Call& call) {
  const auto& watcher = call.services.watcher;
  bool link = co_await call.services.link.alive(std::chrono::seconds(1));
  bool ok = link && watcher.connected() && watcher.reconciled();
  co_await reply(call, 200, health_json(ok, watcher.connected(), link, call.services.version));
}

async::Task<void> get_openapi(Call& call) {
  http::Response response;
  response.headers.set("Content-Type", "application/yaml");
  response.headers.set("X-Content-Type-Options", "nosniff");
  response.body = call.services.openapi;
  (co_await call.exchange.respond(std::move(response))).ignore("the client has gone");
}

}  // namespace space::control::api
