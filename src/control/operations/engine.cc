// SPDX-License-Identifier: Apache-2.0
#include "control/operations/engine.h"

#include <algorithm>

#include "control/meta/operations.h"
#include "control/meta/sessions.h"

namespace space::control::operations {
namespace {
constexpr auto kFresh = std::chrono::seconds(1);
}

bool is_connection_error(const Error& error) {
  return error.reason == "rpc.unreachable" || error.reason == "rpc.connection_lost" ||
         error.reason == "rpc.reset" || error.reason == "node.recovering";
}

Result<std::optional<OperationId>> replayed(meta::Database& database, const TenantId& tenant,
                                            const std::optional<IdempotencyKey>& key) {
  if (!key) return std::optional<OperationId>();
  SPACE_TRY(auto known, meta::find_idempotency(database, tenant, key->key));
  if (!known) return std::optional<OperationId>();
  if (known->request_sha256 != key->request_sha256 || !known->operation) {
    return make_error(Code::kFailedPrecondition, "control.idempotency_conflict",
                      "this Idempotency-Key was used for another request; use a new one");
  }
  return known->operation;
}

Result<void> remember(meta::Database& database, const TenantId& tenant, WallTime now,
                      const std::optional<IdempotencyKey>& key, const OperationId& operation) {
  if (!key) return {};
  return meta::insert_idempotency(database, tenant, now,
                                  {key->key, key->request_sha256, operation, std::nullopt});
}

Engine::Engine(const async::Executor& executor, meta::Store& store, upstream::NodeClient& node,
               ConsoleTails& tails, const Clock& clock, os::Random& random, const obs::Log& log)
    : executor_(executor),
      store_(store),
      node_(node),
      tails_(tails),
      clock_(clock),
      random_(random),
      log_(log),
      scope_(executor) {}

meta::OperationRow Engine::new_operation(TenantId tenant, model::OperationKind kind) const {
  meta::OperationRow row;
  row.tenant = std::move(tenant);
  row.id = random_.id<OperationId>();
  row.kind = kind;
  row.state = model::OperationState::kRunning;
  row.created = clock_.wall();
  row.deadline = row.created + model::time_allowed(kind);
  return row;
}

std::chrono::milliseconds Engine::time_left(const meta::OperationRow& operation) const {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(operation.deadline - clock_.wall());
  return std::max(left, std::chrono::milliseconds(0));
}

void Engine::wake(const OperationId& id) {
  auto found = waiting_.find(id);
  if (found == waiting_.end()) return;
  found->second->over = true;
  found->second->changed.notify_all();
  waiting_.erase(found);
}

async::Task<void> Engine::finish(TenantId tenant, OperationId id, std::optional<Error> error,
                                 std::string detail) {
  WallTime now = clock_.wall();
  auto written =
      co_await store_.write([tenant, id, error, detail, now](meta::Database& database) -> Result<void> {
        SPACE_CHECK_OK(meta::append_step(database, tenant, id, now, error ? "failed" : "succeeded",
                                         error ? error->describe() : detail));
        return meta::end_operation(database, tenant, id, now, error);
      });
  if (!written.ok())
    log_.error("operation_not_recorded", {{"operation", id.str()}, {"error", written.error().describe()}});
  wake(id);
}

async::Task<Result<meta::OperationRow>> Engine::wait(TenantId tenant, OperationId id) {
  for (;;) {
    auto& slot = waiting_[id];
    if (!slot) slot = std::make_shared<Waiting>(executor_);
    auto waiting = slot;
    SPACE_CO_TRY(auto row, co_await store_.read([tenant, id](meta::Database& database) {
      return meta::get_operation(database, tenant, id);
    }));
    if (model::is_over(row.state)) {
      wake(id);
      co_return row;
    }
    // A failed write of the outcome must not leave anybody waiting: look again now and then.
    if (!waiting->over)
      co_await waiting->changed.wait_until(std::chrono::steady_clock::now() + std::chrono::seconds(10));
  }
}

async::Task<Result<std::vector<TenantId>>> Engine::tenants() {
  return store_.read([](meta::Database& database) { return meta::list_tenants(database); });
}

async::Task<Result<std::vector<nodeapi::TemplateT>>> Engine::templates() {
  if (!templates_.empty() && std::chrono::steady_clock::now() - templates_at_ < kFresh) co_return templates_;
  SPACE_CO_TRY(templates_, co_await node_.list_templates());
  templates_at_ = std::chrono::steady_clock::now();
  co_return templates_;
}

async::Task<Result<nodeapi::InfoT>> Engine::node_info() {
  if (info_ && std::chrono::steady_clock::now() - info_at_ < kFresh) co_return *info_;
  SPACE_CO_TRY(info_, co_await node_.info());
  info_at_ = std::chrono::steady_clock::now();
  co_return *info_;
}

async::Task<Result<meta::SessionRow>> Engine::extend_session(TenantId tenant, std::string id_or_name,
                                                             std::uint64_t ttl_seconds) {
  SPACE_CO_CHECK_OK(model::check_ttl(ttl_seconds));
  WallTime now = clock_.wall();
  co_return co_await store_.write(
      [tenant, id_or_name, ttl_seconds, now](meta::Database& database) -> Result<meta::SessionRow> {
        SPACE_TRY(auto row, meta::get_session(database, tenant, id_or_name));
        SPACE_CHECK_OK(model::check_extendable(row.state));
        row.ttl_seconds = ttl_seconds;
        row.expires = now + std::chrono::seconds(ttl_seconds);
        SPACE_CHECK_OK(meta::update_session(database, row));
        return row;
      });
}

async::Task<void> Engine::stop() {
  stopping_ = true;
  co_await scope_.stop();
}

}  // namespace space::control::operations
