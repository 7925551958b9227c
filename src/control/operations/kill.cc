// SPDX-License-Identifier: Apache-2.0
#include <boost/asio/experimental/awaitable_operators.hpp>

#include "control/meta/operations.h"
#include "control/meta/sessions.h"
#include "control/operations/engine.h"

namespace space::control::operations {
namespace {
using std::chrono::milliseconds;
constexpr milliseconds kRetryEvery{100};
}  // namespace

async::Task<Result<Accepted>> Engine::kill_session(TenantId tenant, std::string id_or_name,
                                                   meta::Status cause, std::optional<IdempotencyKey> key) {
  meta::OperationRow operation = new_operation(tenant, model::OperationKind::kKillSession);
  auto fresh = std::make_shared<bool>(false);
  auto written = co_await store_.write([=](meta::Database& database) -> Result<Accepted> {
    *fresh = false;
    SPACE_TRY(auto known, replayed(database, tenant, key));
    if (known) {
      SPACE_TRY(auto earlier, meta::get_operation(database, tenant, *known));
      SPACE_TRY(auto session,
                meta::get_session(database, tenant, earlier.session ? earlier.session->str() : ""));
      return Accepted{earlier.id, std::move(session)};
    }
    SPACE_TRY(auto session, meta::get_session(database, tenant, id_or_name));
    auto state = model::next(session.state, model::SessionEvent::kKillRequested);
    if (!state) return Accepted{std::nullopt, std::move(session)};
    SPACE_TRY(auto running,
              meta::find_open_operation(database, tenant, session.id, model::OperationKind::kKillSession));
    if (running) {
      SPACE_CHECK_OK(remember(database, tenant, operation.created, key, running->id));
      return Accepted{running->id, std::move(session)};
    }
    if (session.state == model::SessionState::kCreating || session.state == model::SessionState::kRunning)
      session.status = cause;
    if (session.state != *state) {
      session.state = *state;
      SPACE_CHECK_OK(meta::update_session(database, session));
    }
    meta::OperationRow row = operation;
    row.session = session.id;
    SPACE_CHECK_OK(meta::insert_operation(database, row));
    SPACE_CHECK_OK(meta::append_step(database, tenant, row.id, row.created, "accepted", cause.message));
    SPACE_CHECK_OK(remember(database, tenant, row.created, key, row.id));
    *fresh = true;
    return Accepted{row.id, std::move(session)};
  });
  if (!written.ok()) co_return std::move(written).error();
  if (*fresh) {
    log_.info("session_kill_accepted", {{"session", written->session.id.str()}, {"reason", cause.reason}});
    operation.session = written->session.id;
    scope_.spawn(run_kill(operation, written->session));
  }
  co_return std::move(*written);
}

async::Task<void> Engine::run_kill(meta::OperationRow operation, meta::SessionRow session) {
  if (auto found = creations_.find(session.id); found != creations_.end()) {
    auto creation = found->second;
    creation->cancelled = true;
    creation->changed.notify_all();
    while (!creation->over) co_await creation->changed.wait();
  }
  Result<nodeapi::DestroyedT> destroyed = make_error(Code::kDeadlineExceeded, "control.kill_deadline",
                                                     "the node did not end the sandbox in time");
  for (milliseconds left = time_left(operation); left.count() > 0; left = time_left(operation)) {
    auto outcome = co_await node_.destroy_sandbox(session.sandbox, left);
    bool again = !outcome.ok() && is_connection_error(outcome.error());
    if (!again) {
      destroyed = std::move(outcome);
      break;
    }
    co_await async::sleep_for(kRetryEvery);
  }
  if (!destroyed.ok()) {
    // The session stays in killing; reconcile() asks for it again.
    log_.warning("session_not_killed",
                 {{"session", session.id.str()}, {"error", destroyed.error().describe()}});
    co_await finish(operation.tenant, operation.id, destroyed.error(), "");
    co_return;
  }
  auto kept = tails_.keep(session.sandbox, destroyed->console_tail);
  if (!kept.ok())
    log_.warning("console_not_kept", {{"session", session.id.str()}, {"error", kept.error().describe()}});
  WallTime now = clock_.wall();
  auto written = co_await store_.write([operation, session, now](meta::Database& database) -> Result<void> {
    SPACE_TRY(auto row, meta::get_session(database, operation.tenant, session.id.str()));
    if (auto state = model::next(row.state, model::SessionEvent::kDestroyed)) {
      row.state = *state;
      if (!row.ended) row.ended = now;
      SPACE_CHECK_OK(meta::update_session(database, row));
    }
    SPACE_CHECK_OK(meta::append_step(database, operation.tenant, operation.id, now, "destroyed",
                                     "nothing is left of the sandbox"));
    return meta::end_operation(database, operation.tenant, operation.id, now, std::nullopt);
  });
  if (!written.ok())
    log_.error("operation_not_recorded",
               {{"operation", operation.id.str()}, {"error", written.error().describe()}});
  else
    log_.info("session_killed", {{"session", session.id.str()}});
  wake(operation.id);
}

async::Task<void> Engine::expire_due() {
  auto all = co_await tenants();
  if (!all.ok()) co_return;
  WallTime now = clock_.wall();
  for (const TenantId& tenant : *all) {
    auto due = co_await store_.read(
        [tenant, now](meta::Database& database) { return meta::expired_sessions(database, tenant, now); });
    if (!due.ok()) {
      log_.error("expiry_failed", {{"error", due.error().describe()}});
      continue;
    }
    for (const auto& session : *due) {
      auto killed = co_await kill_session(tenant, session.id.str(), kExpired, std::nullopt);
      if (!killed.ok())
        log_.warning("expiry_failed", {{"session", session.id.str()}, {"error", killed.error().describe()}});
    }
  }
}

async::Task<void> Engine::stop_sessions(milliseconds limit) {
  stopping_ = true;
  auto deadline = std::chrono::steady_clock::now() + limit;
  std::vector<std::pair<TenantId, OperationId>> kills;
  auto all = co_await tenants();
  if (!all.ok()) co_return;
  for (const TenantId& tenant : *all) {
    auto live = co_await store_.read(
        [tenant](meta::Database& database) { return meta::live_sessions(database, tenant); });
    if (!live.ok()) continue;
    for (const auto& session : *live) {
      auto killed = co_await kill_session(tenant, session.id.str(), kPlatformStopped, std::nullopt);
      if (killed.ok() && killed->operation) kills.emplace_back(tenant, *killed->operation);
    }
  }
  for (const auto& [tenant, operation] : kills) {
    auto left = std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) break;
    using boost::asio::experimental::awaitable_operators::operator||;
    auto ended = co_await (wait(tenant, operation) || async::sleep_for(left));
    if (ended.index() == 1) break;
  }
}

}  // namespace space::control::operations
