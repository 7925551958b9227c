// SPDX-License-Identifier: Apache-2.0
// After a crash or a lost connection: what the database says against what the node has.
#include <algorithm>
#include <unordered_set>

#include "control/meta/operations.h"
#include "control/meta/sessions.h"
#include "control/operations/engine.h"

namespace space::control::operations {
namespace {

const meta::Status kLost{"control.sandbox_lost", "the sandbox was gone when the platform started again"};

std::string node_reason(const nodeapi::EventT& event) {
  return event.reason.starts_with("node.") && event.reason.size() <= 64 ? event.reason
                                                                        : std::string("node.sandbox_ended");
}

}  // namespace

async::Task<Result<void>> Engine::resume() {
  SPACE_CO_TRY(auto all, co_await tenants());
  for (const TenantId& tenant : all) {
    SPACE_CO_TRY(auto open, co_await store_.read([tenant](meta::Database& database) {
      return meta::open_operations(database, tenant);
    }));
    for (const meta::OperationRow& operation : open) {
      log_.info("operation_resumed",
                {{"operation", operation.id.str()}, {"kind", std::string(model::to_string(operation.kind))}});
      switch (operation.kind) {
        case model::OperationKind::kCreateSession:
        case model::OperationKind::kKillSession: {
          std::string id = operation.session ? operation.session->str() : "";
          auto session = co_await store_.read(
              [tenant, id](meta::Database& database) { return meta::get_session(database, tenant, id); });
          if (!session.ok()) {
            co_await finish(tenant, operation.id, session.error(), "");
          } else if (operation.kind == model::OperationKind::kKillSession) {
            scope_.spawn(run_kill(operation, *session));
          } else if (session->state != model::SessionState::kCreating) {
            co_await finish(tenant, operation.id,
                            make_error(Code::kAborted, "control.cancelled",
                                       "the session was killed while it was being created"),
                            "");
          } else {
            // The node's create is idempotent: one that is there is waited for and taken, one that is not is
            // started.
            scope_.spawn(run_create(operation, *session, register_creation(session->id)));
          }
          break;
        }
        case model::OperationKind::kBuildTemplate:
          scope_.spawn(run_build(operation));
          break;
        case model::OperationKind::kRemoveTemplate:
          scope_.spawn(run_remove(operation));
          break;
      }
    }
  }
  co_return Result<void>();
}

async::Task<Result<void>> Engine::reconcile() {
  // First the sessions, then the node, then the sessions again: a sandbox that is not in the node's list is
  // lost only if its session ran before the list was made, and one without a session is a remain only if no
  // session has it now.
  SPACE_CO_TRY(auto all, co_await tenants());
  std::vector<std::vector<meta::SessionRow>> before;
  for (const TenantId& tenant : all) {
    SPACE_CO_TRY(auto live, co_await store_.read([tenant](meta::Database& database) {
      return meta::live_sessions(database, tenant);
    }));
    before.push_back(std::move(live));
  }
  SPACE_CO_TRY(auto present, co_await node_.list_sandboxes());
  std::unordered_set<std::string> wanted;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const TenantId& tenant = all[i];
    SPACE_CO_CHECK_OK(co_await reconcile_tenant(tenant, before[i], present));
    SPACE_CO_TRY(auto live, co_await store_.read([tenant](meta::Database& database) {
      return meta::live_sessions(database, tenant);
    }));
    for (const auto& row : live) wanted.insert(row.sandbox.str());
  }
  for (const auto& sandbox : present) {
    if (wanted.contains(sandbox.sandbox)) continue;
    log_.warning("stray_sandbox_destroyed", {{"sandbox", sandbox.sandbox}, {"session", sandbox.session}});
    auto destroyed = co_await node_.destroy_sandbox(SandboxId(sandbox.sandbox), std::chrono::seconds(30));
    if (!destroyed.ok())
      log_.warning("stray_sandbox_not_destroyed",
                   {{"sandbox", sandbox.sandbox}, {"error", destroyed.error().describe()}});
  }
  co_return Result<void>();
}

async::Task<Result<void>> Engine::reconcile_tenant(TenantId tenant,
                                                   const std::vector<meta::SessionRow>& before,
                                                   const std::vector<nodeapi::SandboxInfoT>& present) {
  for (const meta::SessionRow& row : before) {
    auto found = std::find_if(present.begin(), present.end(),
                              [&](const auto& one) { return one.sandbox == row.sandbox.str(); });
    switch (row.state) {
      case model::SessionState::kRunning:
        if (found == present.end()) {
          co_await fail_lost(row, kLost);
        } else if (row.facts && found->adopted != row.facts->adopted) {
          bool adopted = found->adopted;
          (co_await store_.write([row, adopted](meta::Database& database) -> Result<void> {
            SPACE_TRY(auto now_row, meta::get_session(database, row.tenant, row.id.str()));
            if (!now_row.facts || now_row.sandbox != row.sandbox) return {};
            now_row.facts->adopted = adopted;
            return meta::update_session(database, now_row);
          })).ignore("the next reconciliation writes it");
        }
        break;
      case model::SessionState::kCreating:
        // A create that nobody works at any more, its outcome unrecorded: its operation is over or lost.
        if (!creations_.contains(row.id))
          co_await fail_lost(row, {"control.create_interrupted", "the creation was interrupted"});
        break;
      case model::SessionState::kKilling: {
        // Joins the kill under way, or begins another when the last one failed.
        auto again = co_await kill_session(tenant, row.id.str(), kKilledByRequest, std::nullopt);
        if (!again.ok())
          log_.warning("kill_not_repeated", {{"session", row.id.str()}, {"error", again.error().describe()}});
        break;
      }
      case model::SessionState::kKilled:
      case model::SessionState::kFailed:
        break;
    }
  }
  co_return Result<void>();
}

async::Task<void> Engine::fail_lost(meta::SessionRow row, meta::Status why) {
  WallTime now = clock_.wall();
  auto written = co_await store_.write([row, why, now](meta::Database& database) -> Result<bool> {
    SPACE_TRY(auto current, meta::get_session(database, row.tenant, row.id.str()));
    auto state = model::next(current.state, model::SessionEvent::kSandboxLost);
    if (!state || current.state != row.state || current.sandbox != row.sandbox) return false;
    current.state = *state;
    current.status = why;
    current.ended = now;
    SPACE_CHECK_OK(meta::update_session(database, current));
    return true;
  });
  if (!written.ok()) {
    log_.error("session_not_failed", {{"session", row.id.str()}, {"error", written.error().describe()}});
  } else if (*written) {
    log_.warning("session_failed", {{"session", row.id.str()}, {"reason", why.reason}});
  }
}

async::Task<void> Engine::on_sandbox_ended(nodeapi::EventT event) {
  auto all = co_await tenants();
  if (!all.ok()) co_return;
  SandboxId sandbox(event.sandbox);
  for (const TenantId& tenant : *all) {
    auto session = co_await store_.read([tenant, sandbox](meta::Database& database) {
      return meta::find_session_of_sandbox(database, tenant, sandbox);
    });
    if (!session.ok() || !*session) continue;
    auto kept = tails_.keep(sandbox, event.console_tail);
    if (!kept.ok())
      log_.warning("console_not_kept", {{"sandbox", sandbox.str()}, {"error", kept.error().describe()}});
    // A create or a kill under way gets its own answer from the node.
    if ((*session)->state != model::SessionState::kRunning) co_return;
    std::string message = event.detail.empty() ? "the sandbox ended by itself" : event.detail;
    message.resize(std::min<std::size_t>(message.size(), 500));
    co_await fail_lost(**session, {node_reason(event), message});
    co_return;
  }
}

}  // namespace space::control::operations
