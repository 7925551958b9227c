// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "control/meta/operations.h"
#include "control/operations/engine.h"
#include "lib/async/deadline.h"

namespace space::control::operations {
namespace {
// Lines of a build's progress that the journal keeps; the rest is in the node's log.
constexpr int kMaxJournalLines = 500;
constexpr std::size_t kMaxLineBytes = 500;
}  // namespace

async::Task<Result<OperationId>> Engine::accept_template_operation(TenantId tenant, std::string name,
                                                                   model::OperationKind kind,
                                                                   std::optional<IdempotencyKey> key) {
  if (key) {
    SPACE_CO_TRY(auto known, co_await store_.read([tenant, key](meta::Database& database) {
      return replayed(database, tenant, key);
    }));
    if (known) co_return *known;
  }
  if (stopping_)
    co_return make_error(Code::kUnavailable, "control.stopping", "the platform is stopping; try again later");
  SPACE_CO_CHECK_OK(model::check_template_name(name, "name"));
  SPACE_CO_TRY(auto all, co_await templates());
  if (std::none_of(all.begin(), all.end(), [&](const auto& one) { return one.name == name; })) {
    co_return make_error(Code::kNotFound, "control.no_such_template",
                         "there is no template or recipe of this name");
  }
  meta::OperationRow operation = new_operation(tenant, kind);
  operation.template_name = name;
  SPACE_CO_TRY(OperationId accepted,
               co_await store_.write([operation, key](meta::Database& database) -> Result<OperationId> {
                 SPACE_TRY(auto known, replayed(database, operation.tenant, key));
                 if (known) return *known;
                 SPACE_TRY(auto running,
                           meta::find_open_template_operation(database, operation.tenant,
                                                              *operation.template_name, operation.kind));
                 if (!running) {
                   SPACE_CHECK_OK(meta::insert_operation(database, operation));
                   SPACE_CHECK_OK(meta::append_step(database, operation.tenant, operation.id,
                                                    operation.created, "accepted", *operation.template_name));
                 }
                 OperationId id = running ? running->id : operation.id;
                 SPACE_CHECK_OK(remember(database, operation.tenant, operation.created, key, id));
                 return id;
               }));
  if (accepted == operation.id) {
    scope_.spawn(kind == model::OperationKind::kBuildTemplate ? run_build(operation) : run_remove(operation));
  }
  co_return accepted;
}

async::Task<Result<OperationId>> Engine::build_template(TenantId tenant, std::string name,
                                                        std::optional<IdempotencyKey> key) {
  return accept_template_operation(std::move(tenant), std::move(name), model::OperationKind::kBuildTemplate,
                                   std::move(key));
}

async::Task<Result<OperationId>> Engine::remove_template(TenantId tenant, std::string name,
                                                         std::optional<IdempotencyKey> key) {
  return accept_template_operation(std::move(tenant), std::move(name), model::OperationKind::kRemoveTemplate,
                                   std::move(key));
}

namespace {

// The journal as a sink of lines. Keeps what it needs by value: it is called from a task of its own.
struct LineJournal {
  meta::Store& store;
  const Clock& clock;
  TenantId tenant;
  OperationId operation;
  int lines = 0;
};

async::Task<void> append_line(std::shared_ptr<LineJournal> journal, std::string line) {
  if (++journal->lines > kMaxJournalLines) co_return;
  line.resize(std::min(line.size(), kMaxLineBytes));
  WallTime now = journal->clock.wall();
  TenantId tenant = journal->tenant;
  OperationId operation = journal->operation;
  (co_await journal->store.write([tenant, operation, now, line](meta::Database& database) {
    return meta::append_step(database, tenant, operation, now, "progress", line);
  })).ignore("progress is for people; the outcome is recorded apart");
}

}  // namespace

async::Task<void> Engine::run_build(meta::OperationRow operation) {
  auto journal = std::make_shared<LineJournal>(LineJournal{store_, clock_, operation.tenant, operation.id});
  std::function<async::Task<void>(std::string)> on_line = [journal](std::string line) {
    return append_line(journal, std::move(line));
  };
  auto built = co_await async::with_deadline(node_.build_template(*operation.template_name, on_line),
                                             time_left(operation), "control.operation_deadline",
                                             "the template was not built in the time allowed");
  templates_.clear();
  std::optional<Error> error;
  if (!built.ok()) error = built.error();
  co_await finish(operation.tenant, operation.id, error, built.ok() ? "digest " + built->digest : "");
}

async::Task<void> Engine::run_remove(meta::OperationRow operation) {
  Result<void> removed;
  do {
    removed = co_await node_.remove_template(*operation.template_name);
    if (removed.ok() || !is_connection_error(removed.error())) break;
    co_await async::sleep_for(std::chrono::milliseconds(100));
  } while (time_left(operation).count() > 0);
  templates_.clear();
  std::optional<Error> error;
  if (!removed.ok()) error = removed.error();
  co_await finish(operation.tenant, operation.id, error, "removed");
}

}  // namespace space::control::operations
