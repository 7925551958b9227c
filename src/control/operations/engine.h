// SPDX-License-Identifier: Apache-2.0
#pragma once
// Operations: everything that changes a session or a template.
//
// Promises
//   * An operation is durable before anything is done for it, and is carried to its end or undone after a
//   crash.
//   * The same idempotency key gives the same operation; with another request it is
//   control.idempotency_conflict.
//   * Operations on one session don't overlap. A kill is accepted in every state and cancels a create under
//   way.
//   * Every state that is not final ends by itself: creates and kills have deadlines, and reconcile() takes
//   up what
//     they leave: sessions whose sandbox is gone fail, sandboxes without a live session are destroyed.
//
// Resource type; one loop. Posture: tenant-input. Files: engine.cc (common), create.cc, kill.cc,
// templates.cc, reconcile.cc.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "control/meta/rows.h"
#include "control/meta/store.h"
#include "control/operations/console_tails.h"
#include "control/upstream/node_client.h"
#include "lib/async/event.h"
#include "lib/async/task_scope.h"
#include "lib/base/clock.h"
#include "lib/obs/log.h"
#include "lib/os/random.h"
#include "model/session_request.h"

namespace space::control::operations {

struct IdempotencyKey {
  std::string key;
  std::string request_sha256;  // what makes two requests the same
};

// `operation` is absent when there was nothing to do.
struct Accepted {
  std::optional<OperationId> operation;
  meta::SessionRow session;
};

// Reasons for which sessions end by decision.
inline const meta::Status kKilledByRequest{"control.killed", "killed on request"};
inline const meta::Status kExpired{"control.expired", "the time to live was over"};
inline const meta::Status kPlatformStopped{"control.platform_stopped", "the platform was stopped"};

// Errors of connections: the request may be asked again as it is.
bool is_connection_error(const Error& error);

class Engine {
 public:
  // The references must outlive the engine.
  Engine(const async::Executor& executor, meta::Store& store, upstream::NodeClient& node, ConsoleTails& tails,
         const Clock& clock, os::Random& random, const obs::Log& log);

  // Errors: control.name_taken, control.no_such_template, control.template_not_ready,
  // control.idempotency_conflict, control.stopping, model.*, rpc.unreachable.
  async::Task<Result<Accepted>> create_session(TenantId tenant, model::SessionRequest request,
                                               std::optional<IdempotencyKey> key);
  // `cause` becomes the session's status, unless it has failed before. Errors: control.no_such_session,
  // control.idempotency_conflict.
  async::Task<Result<Accepted>> kill_session(TenantId tenant, std::string id_or_name, meta::Status cause,
                                             std::optional<IdempotencyKey> key);
  // The deadline becomes now + ttl. Errors: control.no_such_session, control.session_ended, model.bad_ttl.
  async::Task<Result<meta::SessionRow>> extend_session(TenantId tenant, std::string id_or_name,
                                                       std::uint64_t ttl_seconds);
  // A build under way for the same template is joined. Errors: control.no_such_template, as above.
  async::Task<Result<OperationId>> build_template(TenantId tenant, std::string name,
                                                  std::optional<IdempotencyKey> key);
  async::Task<Result<OperationId>> remove_template(TenantId tenant, std::string name,
                                                   std::optional<IdempotencyKey> key);

  // The operation once it is over. It ends by its deadline at the latest.
  async::Task<Result<meta::OperationRow>> wait(TenantId tenant, OperationId id);

  // What templates the node has, not older than a second. Errors: rpc.unreachable.
  async::Task<Result<std::vector<nodeapi::TemplateT>>> templates();
  async::Task<Result<nodeapi::InfoT>> node_info();

  // At start, before anything else: takes up the operations that an earlier process left.
  async::Task<Result<void>> resume();
  // After every connection to the node, and now and then: makes sessions and sandboxes agree.
  async::Task<Result<void>> reconcile();
  async::Task<void> on_sandbox_ended(nodeapi::EventT event);
  // Kills the sessions whose deadline has passed. Called every second or so.
  async::Task<void> expire_due();

  // Refuses new work, kills all live sessions and waits for that at most `limit`.
  async::Task<void> stop_sessions(std::chrono::milliseconds limit);
  // Cancels what still runs; the next start takes it up.
  async::Task<void> stop();

 private:
  // A create under way, so that a kill can cancel it and wait for its end.
  struct Creation {
    explicit Creation(const async::Executor& executor) : changed(executor) {}
    async::Event changed;
    bool cancelled = false;
    bool over = false;
  };
  struct Waiting {
    explicit Waiting(const async::Executor& executor) : changed(executor) {}
    async::Event changed;
    bool over = false;
  };

  // common
  async::Task<void> finish(TenantId tenant, OperationId id, std::optional<Error> error, std::string detail);
  void wake(const OperationId& id);
  async::Task<Result<std::vector<TenantId>>> tenants();
  meta::OperationRow new_operation(TenantId tenant, model::OperationKind kind) const;
  std::chrono::milliseconds time_left(const meta::OperationRow& operation) const;

  // create
  async::Task<Result<model::Resources>> resolve(model::SessionRequest request);
  std::shared_ptr<Creation> register_creation(const SessionId& session);
  async::Task<void> run_create(meta::OperationRow operation, meta::SessionRow session,
                               std::shared_ptr<Creation> creation);
  async::Task<Result<nodeapi::SandboxInfoT>> create_at_node(meta::OperationRow operation,
                                                            meta::SessionRow session);
  async::Task<void> end_create(meta::OperationRow operation, SessionId session,
                               Result<nodeapi::SandboxInfoT> outcome);

  // kill
  async::Task<void> run_kill(meta::OperationRow operation, meta::SessionRow session);

  // templates
  async::Task<Result<OperationId>> accept_template_operation(TenantId tenant, std::string name,
                                                             model::OperationKind kind,
                                                             std::optional<IdempotencyKey> key);
  async::Task<void> run_build(meta::OperationRow operation);
  async::Task<void> run_remove(meta::OperationRow operation);

  // reconcile
  async::Task<Result<void>> reconcile_tenant(TenantId tenant, const std::vector<meta::SessionRow>& before,
                                             const std::vector<nodeapi::SandboxInfoT>& present);
  async::Task<void> fail_lost(meta::SessionRow row, meta::Status why);

  async::Executor executor_;
  meta::Store& store_;
  upstream::NodeClient& node_;
  ConsoleTails& tails_;
  const Clock& clock_;
  os::Random& random_;
  const obs::Log& log_;
  bool stopping_ = false;
  std::unordered_map<SessionId, std::shared_ptr<Creation>> creations_;
  std::unordered_map<OperationId, std::shared_ptr<Waiting>> waiting_;
  std::vector<nodeapi::TemplateT> templates_;
  Monotonic templates_at_{};
  std::optional<nodeapi::InfoT> info_;
  Monotonic info_at_{};
  async::TaskScope scope_;
};

// In a transaction: the operation that `key` stands for, nothing when the key is new.
// Errors: control.idempotency_conflict.
Result<std::optional<OperationId>> replayed(meta::Database& database, const TenantId& tenant,
                                            const std::optional<IdempotencyKey>& key);
Result<void> remember(meta::Database& database, const TenantId& tenant, WallTime now,
                      const std::optional<IdempotencyKey>& key, const OperationId& operation);

}  // namespace space::control::operations
