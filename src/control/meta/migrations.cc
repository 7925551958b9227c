// SPDX-License-Identifier: Apache-2.0
#include "control/meta/migrations.h"

#include <iterator>

namespace space::control::meta {
namespace {

// Times are microseconds since 1970 UTC. Every object has a tenant, first in its key.
constexpr const char* kSteps[] = {
    // 1: tenants, sessions, operations with their journal, idempotency keys, API keys.
    R"sql(
    CREATE TABLE tenants (
      tenant TEXT NOT NULL PRIMARY KEY,
      name TEXT NOT NULL,
      created_us INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE sessions (
      tenant TEXT NOT NULL,
      id TEXT NOT NULL,
      name TEXT,
      state TEXT NOT NULL CHECK (state IN ('creating', 'running', 'killing', 'killed', 'failed')),
      status_reason TEXT,
      status_message TEXT,
      template TEXT NOT NULL,
      vcpus INTEGER NOT NULL,
      memory_bytes INTEGER NOT NULL,
      disk_bytes INTEGER NOT NULL,
      ttl_seconds INTEGER NOT NULL,
      labels TEXT NOT NULL,
      created_us INTEGER NOT NULL,
      started_us INTEGER,
      expires_us INTEGER NOT NULL,
      ended_us INTEGER,
      generation INTEGER NOT NULL,
      sandbox TEXT NOT NULL,
      sandbox_node TEXT,
      sandbox_backend TEXT,
      sandbox_acceleration TEXT,
      sandbox_started_us INTEGER,
      sandbox_adopted INTEGER NOT NULL DEFAULT 0,
      version INTEGER NOT NULL,
      PRIMARY KEY (tenant, id)
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX sessions_held_name ON sessions (tenant, name)
      WHERE name IS NOT NULL AND state IN ('creating', 'running');
    CREATE INDEX sessions_by_name ON sessions (tenant, name, created_us) WHERE name IS NOT NULL;
    CREATE INDEX sessions_by_sandbox ON sessions (tenant, sandbox);
    CREATE INDEX sessions_by_time ON sessions (tenant, created_us, id);
    CREATE INDEX sessions_by_state ON sessions (tenant, state, created_us, id);
    CREATE INDEX sessions_live ON sessions (tenant, expires_us) WHERE state IN ('creating', 'running', 'killing');

    CREATE TABLE operations (
      tenant TEXT NOT NULL,
      id TEXT NOT NULL,
      kind TEXT NOT NULL,
      session TEXT,
      template TEXT,
      state TEXT NOT NULL CHECK (state IN ('pending', 'running', 'succeeded', 'failed')),
      created_us INTEGER NOT NULL,
      deadline_us INTEGER NOT NULL,
      ended_us INTEGER,
      error_code INTEGER,
      error_reason TEXT,
      error_message TEXT,
      error_field TEXT,
      PRIMARY KEY (tenant, id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX operations_by_time ON operations (tenant, created_us, id);
    CREATE INDEX operations_by_session ON operations (tenant, session, created_us, id) WHERE session IS NOT NULL;
    CREATE INDEX operations_open ON operations (tenant, id) WHERE state IN ('pending', 'running');

    CREATE TABLE steps (
      tenant TEXT NOT NULL,
      operation TEXT NOT NULL,
      number INTEGER NOT NULL,
      at_us INTEGER NOT NULL,
      step TEXT NOT NULL,
      detail TEXT NOT NULL,
      PRIMARY KEY (tenant, operation, number)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE idempotency (
      tenant TEXT NOT NULL,
      key TEXT NOT NULL,
      request_sha256 TEXT NOT NULL,
      operation TEXT,
      outcome TEXT,
      created_us INTEGER NOT NULL,
      PRIMARY KEY (tenant, key)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE api_keys (
      tenant TEXT NOT NULL,
      id TEXT NOT NULL,
      sha256 TEXT NOT NULL,
      name TEXT NOT NULL,
      created_us INTEGER NOT NULL,
      revoked_us INTEGER,
      PRIMARY KEY (tenant, id)
    ) STRICT, WITHOUT ROWID;
    )sql",
};

}  // namespace

int newest_schema() {
  return static_cast<int>(std::size(kSteps));
}

Result<void> migrate(Database& database) {
  std::int64_t version = 0;
  {
    auto query = database.query("PRAGMA user_version");
    if (query.step()) version = query.integer(0);
    SPACE_CHECK_OK(query.done());
  }
  if (version > newest_schema()) {
    return make_error(Code::kFailedPrecondition, "meta.newer_schema",
                      "the database was written by a newer version of this program; use that one");
  }
  for (auto step = static_cast<std::size_t>(version); step < std::size(kSteps); ++step) {
    std::string sql = "BEGIN IMMEDIATE;" + std::string(kSteps[step]) +
                      "PRAGMA user_version = " + std::to_string(step + 1) + "; COMMIT;";
    auto outcome = database.execute(sql.c_str());
    if (outcome.ok()) continue;
    database.execute("ROLLBACK").ignore("the transaction may have ended by itself");
    return std::move(outcome).error().context("migration " + std::to_string(step + 1));
  }
  return {};
}

}  // namespace space::control::meta
