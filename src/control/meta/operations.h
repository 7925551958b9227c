// SPDX-License-Identifier: Apache-2.0
#pragma once
// Queries about operations, their journal, idempotency keys, tenants and API keys. Blocking; for work that
// Store runs.

#include <optional>
#include <string_view>
#include <vector>

#include "control/meta/database.h"
#include "control/meta/rows.h"

namespace space::control::meta {

Result<void> insert_operation(Database& database, const OperationRow& row);
// Errors: control.no_such_operation.
Result<OperationRow> get_operation(Database& database, const TenantId& tenant, const OperationId& id);
Result<void> set_running(Database& database, const TenantId& tenant, const OperationId& id);
// Ends an operation that is not over; one that is over stays as it is.
Result<void> end_operation(Database& database, const TenantId& tenant, const OperationId& id, WallTime now,
                           const std::optional<Error>& error);
// Newest first, at most `limit`; of one session when given.
Result<std::vector<OperationRow>> list_operations(Database& database, const TenantId& tenant,
                                                  const std::optional<SessionId>& session,
                                                  const std::optional<Cursor>& after, std::size_t limit);
// Pending and running ones.
Result<std::vector<OperationRow>> open_operations(Database& database, const TenantId& tenant);
Result<std::optional<OperationRow>> find_open_operation(Database& database, const TenantId& tenant,
                                                        const SessionId& session, model::OperationKind kind);
Result<std::optional<OperationRow>> find_open_template_operation(Database& database, const TenantId& tenant,
                                                                 const std::string& template_name,
                                                                 model::OperationKind kind);

// The journal. `detail` is text for people.
Result<void> append_step(Database& database, const TenantId& tenant, const OperationId& id, WallTime now,
                         std::string_view step, std::string_view detail);
Result<std::vector<StepRow>> list_steps(Database& database, const TenantId& tenant, const OperationId& id);

Result<std::optional<IdempotencyRow>> find_idempotency(Database& database, const TenantId& tenant,
                                                       std::string_view key);
Result<void> insert_idempotency(Database& database, const TenantId& tenant, WallTime now,
                                const IdempotencyRow& row);
Result<void> set_idempotency_outcome(Database& database, const TenantId& tenant, std::string_view key,
                                     std::string_view outcome);
Result<void> remove_idempotency(Database& database, const TenantId& tenant, std::string_view key);

Result<void> insert_tenant(Database& database, const TenantId& tenant, std::string_view name, WallTime now);
Result<std::vector<TenantId>> list_tenants(Database& database);

Result<void> insert_api_key(Database& database, const ApiKeyRow& row, WallTime now);
Result<void> revoke_api_key(Database& database, const TenantId& tenant, std::string_view id, WallTime now);
// Those that are not revoked.
Result<std::vector<ApiKeyRow>> valid_api_keys(Database& database, const TenantId& tenant);

}  // namespace space::control::meta
