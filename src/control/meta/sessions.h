// SPDX-License-Identifier: Apache-2.0
#pragma once
// Queries about sessions. Blocking; for work that Store runs. Every one names its tenant.

#include <optional>
#include <string_view>
#include <vector>

#include "control/meta/database.h"
#include "control/meta/rows.h"

namespace space::control::meta {

// Errors: control.name_taken when a creating or running session of the tenant has the name.
Result<void> insert_session(Database& database, const SessionRow& row);

Result<std::optional<SessionRow>> find_session(Database& database, const TenantId& tenant,
                                               const SessionId& id);
// By id, else by name: the session that holds the name, else the newest that had it.
// Errors: control.no_such_session.
Result<SessionRow> get_session(Database& database, const TenantId& tenant, std::string_view id_or_name);
Result<std::optional<SessionRow>> find_session_of_sandbox(Database& database, const TenantId& tenant,
                                                          const SandboxId& sandbox);

// Compare-and-set: writes everything that may change if the stored version is still row.version, and raises
// row.version. Errors: meta.version_conflict (aborted, retryable).
Result<void> update_session(Database& database, SessionRow& row);

struct SessionFilter {
  std::vector<model::SessionState> states;  // empty: all
  std::optional<std::string> name;
};
// Newest first, at most `limit`.
Result<std::vector<SessionRow>> list_sessions(Database& database, const TenantId& tenant,
                                              const SessionFilter& filter, const std::optional<Cursor>& after,
                                              std::size_t limit);
// Those that may have a sandbox.
Result<std::vector<SessionRow>> live_sessions(Database& database, const TenantId& tenant);
// Creating or running and past their deadline.
Result<std::vector<SessionRow>> expired_sessions(Database& database, const TenantId& tenant, WallTime now);

}  // namespace space::control::meta
