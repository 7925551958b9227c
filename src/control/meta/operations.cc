// SPDX-License-Identifier: Apache-2.0
#include "control/meta/operations.h"

namespace space::control::meta {
namespace {

#define SPACE_OPERATION_COLUMNS                                                                       \
  "id, kind, session, template, state, created_us, deadline_us, ended_us, error_code, error_reason, " \
  "error_message, error_field"

Result<OperationRow> read_row(const TenantId& tenant, const Query& query) {
  OperationRow row;
  row.tenant = tenant;
  row.id = OperationId(query.text(0));
  SPACE_TRY(row.kind, model::parse_operation_kind(query.text(1)));
  if (auto session = query.maybe_text(2)) row.session = SessionId(*session);
  row.template_name = query.maybe_text(3);
  SPACE_TRY(row.state, model::parse_operation_state(query.text(4)));
  row.created = from_us(query.integer(5));
  row.deadline = from_us(query.integer(6));
  if (auto ended = query.maybe_integer(7)) row.ended = from_us(*ended);
  if (auto code = query.maybe_integer(8)) {
    Code known = *code > 0 && *code <= kMaxCode ? static_cast<Code>(*code) : Code::kInternal;
    row.error = Error{known, query.text(9), query.text(10), query.text(11)};
  }
  return row;
}

Result<std::vector<OperationRow>> read_all(const TenantId& tenant, Query& query) {
  std::vector<OperationRow> rows;
  while (query.step()) {
    SPACE_TRY(OperationRow row, read_row(tenant, query));
    rows.push_back(std::move(row));
  }
  SPACE_CHECK_OK(query.done());
  return rows;
}

Result<std::optional<OperationRow>> read_one(const TenantId& tenant, Query& query) {
  SPACE_TRY(auto rows, read_all(tenant, query));
  if (rows.empty()) return std::optional<OperationRow>();
  return std::optional<OperationRow>(std::move(rows.front()));
}

Result<void> run(Query& query) {
  SPACE_CHECK_OK(query.run());
  return {};
}

}  // namespace

Result<void> insert_operation(Database& database, const OperationRow& row) {
  auto insert = database.query(
      "INSERT INTO operations (tenant, id, kind, session, template, state, created_us, deadline_us) VALUES "
      "(?, ?, ?, ?, ?, ?, ?, ?)");
  std::optional<std::string> session;
  if (row.session) session = row.session->str();
  insert.bind(row.tenant.str(), row.id.str(), model::to_string(row.kind), session, row.template_name,
              model::to_string(row.state), to_us(row.created), to_us(row.deadline));
  return run(insert);
}

Result<OperationRow> get_operation(Database& database, const TenantId& tenant, const OperationId& id) {
  auto query =
      database.query("SELECT " SPACE_OPERATION_COLUMNS " FROM operations WHERE tenant = ? AND id = ?");
  query.bind(tenant.str(), id.str());
  SPACE_TRY(auto row, read_one(tenant, query));
  if (!row)
    return make_error(Code::kNotFound, "control.no_such_operation", "there is no operation with this id");
  return std::move(*row);
}

Result<void> set_running(Database& database, const TenantId& tenant, const OperationId& id) {
  auto update = database.query(
      "UPDATE operations SET state = 'running' WHERE tenant = ? AND id = ? AND state = 'pending'");
  update.bind(tenant.str(), id.str());
  return run(update);
}

Result<void> end_operation(Database& database, const TenantId& tenant, const OperationId& id, WallTime now,
                           const std::optional<Error>& error) {
  auto update = database.query(
      "UPDATE operations SET state = ?, ended_us = ?, error_code = ?, error_reason = ?, error_message = ?, "
      "error_field = ? "
      "WHERE tenant = ? AND id = ? AND state IN ('pending', 'running')");
  std::optional<std::int64_t> code;
  std::optional<std::string> reason, message, field;
  if (error) {
    code = static_cast<std::int64_t>(error->code);
    reason = error->reason;
    message = error->message;
    field = error->field;
  }
  update.bind(error ? "failed" : "succeeded", to_us(now), code, reason, message, field, tenant.str(),
              id.str());
  return run(update);
}

Result<std::vector<OperationRow>> list_operations(Database& database, const TenantId& tenant,
                                                  const std::optional<SessionId>& session,
                                                  const std::optional<Cursor>& after, std::size_t limit) {
  auto query = database.query(
      "SELECT " SPACE_OPERATION_COLUMNS
      " FROM operations WHERE tenant = ?1 AND (?2 IS NULL OR session = ?2) "
      "AND (?3 IS NULL OR (created_us, id) < (?3, ?4)) ORDER BY created_us DESC, id DESC LIMIT ?5");
  std::optional<std::string> of_session;
  if (session) of_session = session->str();
  std::optional<std::int64_t> after_us;
  std::string after_id;
  if (after) {
    after_us = after->created_us;
    after_id = after->id;
  }
  query.bind(tenant.str(), of_session, after_us, after_id, static_cast<std::uint64_t>(limit));
  return read_all(tenant, query);
}

Result<std::vector<OperationRow>> open_operations(Database& database, const TenantId& tenant) {
  auto query = database.query("SELECT " SPACE_OPERATION_COLUMNS
                              " FROM operations WHERE tenant = ? AND state IN ('pending', 'running')");
  query.bind(tenant.str());
  return read_all(tenant, query);
}

Result<std::optional<OperationRow>> find_open_operation(Database& database, const TenantId& tenant,
                                                        const SessionId& session, model::OperationKind kind) {
  auto query = database.query(
      "SELECT " SPACE_OPERATION_COLUMNS
      " FROM operations WHERE tenant = ? AND session = ? AND kind = ? AND state IN ('pending', 'running')");
  query.bind(tenant.str(), session.str(), model::to_string(kind));
  return read_one(tenant, query);
}

Result<std::optional<OperationRow>> find_open_template_operation(Database& database, const TenantId& tenant,
                                                                 const std::string& template_name,
                                                                 model::OperationKind kind) {
  auto query = database.query(
      "SELECT " SPACE_OPERATION_COLUMNS
      " FROM operations WHERE tenant = ? AND template = ? AND kind = ? AND state IN ('pending', 'running')");
  query.bind(tenant.str(), template_name, model::to_string(kind));
  return read_one(tenant, query);
}

Result<void> append_step(Database& database, const TenantId& tenant, const OperationId& id, WallTime now,
                         std::string_view step, std::string_view detail) {
  auto insert = database.query(
      "INSERT INTO steps (tenant, operation, number, at_us, step, detail) VALUES (?1, ?2, "
      "(SELECT coalesce(max(number), 0) + 1 FROM steps WHERE tenant = ?1 AND operation = ?2), ?3, ?4, ?5)");
  insert.bind(tenant.str(), id.str(), to_us(now), step, detail);
  return run(insert);
}

Result<std::vector<StepRow>> list_steps(Database& database, const TenantId& tenant, const OperationId& id) {
  auto query = database.query(
      "SELECT at_us, step, detail FROM steps WHERE tenant = ? AND operation = ? ORDER BY number");
  query.bind(tenant.str(), id.str());
  std::vector<StepRow> steps;
  while (query.step()) steps.push_back({from_us(query.integer(0)), query.text(1), query.text(2)});
  SPACE_CHECK_OK(query.done());
  return steps;
}

Result<std::optional<IdempotencyRow>> find_idempotency(Database& database, const TenantId& tenant,
                                                       std::string_view key) {
  auto query = database.query(
      "SELECT key, request_sha256, operation, outcome FROM idempotency WHERE tenant = ? AND key = ?");
  query.bind(tenant.str(), key);
  std::optional<IdempotencyRow> row;
  if (query.step()) {
    row = IdempotencyRow{query.text(0), query.text(1), std::nullopt, query.maybe_text(3)};
    if (auto operation = query.maybe_text(2)) row->operation = OperationId(*operation);
  }
  SPACE_CHECK_OK(query.done());
  return row;
}

Result<void> insert_idempotency(Database& database, const TenantId& tenant, WallTime now,
                                const IdempotencyRow& row) {
  auto insert = database.query(
      "INSERT INTO idempotency (tenant, key, request_sha256, operation, outcome, created_us) VALUES (?, ?, "
      "?, ?, ?, ?)");
  std::optional<std::string> operation;
  if (row.operation) operation = row.operation->str();
  insert.bind(tenant.str(), row.key, row.request_sha256, operation, row.outcome, to_us(now));
  return run(insert);
}

Result<void> set_idempotency_outcome(Database& database, const TenantId& tenant, std::string_view key,
                                     std::string_view outcome) {
  auto update = database.query("UPDATE idempotency SET outcome = ? WHERE tenant = ? AND key = ?");
  update.bind(outcome, tenant.str(), key);
  return run(update);
}

Result<void> remove_idempotency(Database& database, const TenantId& tenant, std::string_view key) {
  auto remove = database.query("DELETE FROM idempotency WHERE tenant = ? AND key = ?");
  remove.bind(tenant.str(), key);
  return run(remove);
}

Result<void> insert_tenant(Database& database, const TenantId& tenant, std::string_view name, WallTime now) {
  auto insert = database.query(
      "INSERT INTO tenants (tenant, name, created_us) VALUES (?, ?, ?) ON CONFLICT DO NOTHING");
  insert.bind(tenant.str(), name, to_us(now));
  return run(insert);
}

Result<std::vector<TenantId>> list_tenants(Database& database) {
  auto query = database.query("SELECT tenant FROM tenants ORDER BY tenant");
  std::vector<TenantId> tenants;
  while (query.step()) tenants.emplace_back(query.text(0));
  SPACE_CHECK_OK(query.done());
  return tenants;
}

Result<void> insert_api_key(Database& database, const ApiKeyRow& row, WallTime now) {
  auto insert =
      database.query("INSERT INTO api_keys (tenant, id, sha256, name, created_us) VALUES (?, ?, ?, ?, ?)");
  insert.bind(row.tenant.str(), row.id, row.sha256, row.name, to_us(now));
  return run(insert);
}

Result<void> revoke_api_key(Database& database, const TenantId& tenant, std::string_view id, WallTime now) {
  auto update =
      database.query("UPDATE api_keys SET revoked_us = ? WHERE tenant = ? AND id = ? AND revoked_us IS NULL");
  update.bind(to_us(now), tenant.str(), id);
  SPACE_TRY(auto changed, update.run());
  if (changed == 0)
    return make_error(Code::kNotFound, "control.no_such_key", "there is no valid key with this id");
  return {};
}

Result<std::vector<ApiKeyRow>> valid_api_keys(Database& database, const TenantId& tenant) {
  auto query =
      database.query("SELECT id, sha256, name FROM api_keys WHERE tenant = ? AND revoked_us IS NULL");
  query.bind(tenant.str());
  std::vector<ApiKeyRow> keys;
  while (query.step()) keys.push_back({tenant, query.text(0), query.text(1), query.text(2), std::nullopt});
  SPACE_CHECK_OK(query.done());
  return keys;
}

}  // namespace space::control::meta
