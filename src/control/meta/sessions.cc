// SPDX-License-Identifier: Apache-2.0
#include "control/meta/sessions.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

namespace space::control::meta {
namespace {

// The columns of every SELECT here, in the order of read_row().
#define SPACE_SESSION_COLUMNS                                                                                \
  "id, name, state, status_reason, status_message, template, vcpus, memory_bytes, disk_bytes, ttl_seconds, " \
  "labels, created_us, started_us, expires_us, ended_us, generation, sandbox, sandbox_node, "                \
  "sandbox_backend, "                                                                                        \
  "sandbox_acceleration, sandbox_started_us, sandbox_adopted, version"
#define SPACE_LIVE "('creating', 'running', 'killing')"
// A session gives its name up as soon as its end is decided.
#define SPACE_NAMED "('creating', 'running')"

std::string write_labels(const model::Labels& labels) {
  boost::json::object object;
  for (const auto& [key, value] : labels) object[key] = value;
  return boost::json::serialize(object);
}

Result<model::Labels> read_labels(const std::string& text) {
  boost::json::error_code error;
  auto value = boost::json::parse(text, error);
  if (error || !value.is_object())
    return make_error(Code::kDataLoss, "meta.corrupt", "a session's labels are damaged");
  model::Labels labels;
  for (const auto& field : value.as_object()) {
    if (field.value().is_string()) labels.emplace(field.key(), field.value().as_string());
  }
  return labels;
}

std::optional<WallTime> maybe_time(const Query& query, int column) {
  auto us = query.maybe_integer(column);
  if (!us) return std::nullopt;
  return from_us(*us);
}

std::optional<std::int64_t> maybe_us(const std::optional<WallTime>& time) {
  if (!time) return std::nullopt;
  return to_us(*time);
}

Result<SessionRow> read_row(const TenantId& tenant, const Query& query) {
  SessionRow row;
  row.tenant = tenant;
  row.id = SessionId(query.text(0));
  row.name = query.maybe_text(1);
  SPACE_TRY(row.state, model::parse_session_state(query.text(2)));
  if (auto reason = query.maybe_text(3)) row.status = Status{*reason, query.text(4)};
  row.template_name = query.text(5);
  row.resources.vcpus = static_cast<std::uint32_t>(query.integer(6));
  row.resources.memory_bytes = static_cast<std::uint64_t>(query.integer(7));
  row.resources.disk_bytes = static_cast<std::uint64_t>(query.integer(8));
  row.ttl_seconds = static_cast<std::uint64_t>(query.integer(9));
  SPACE_TRY(row.labels, read_labels(query.text(10)));
  row.created = from_us(query.integer(11));
  row.started = maybe_time(query, 12);
  row.expires = from_us(query.integer(13));
  row.ended = maybe_time(query, 14);
  row.generation = static_cast<std::uint64_t>(query.integer(15));
  row.sandbox = SandboxId(query.text(16));
  if (auto node = query.maybe_text(17)) {
    row.facts = SandboxFacts{*node, query.text(18), query.text(19), from_us(query.integer(20)),
                             query.integer(21) != 0};
  }
  row.version = static_cast<std::uint64_t>(query.integer(22));
  return row;
}

Result<std::vector<SessionRow>> read_all(const TenantId& tenant, Query& query) {
  std::vector<SessionRow> rows;
  while (query.step()) {
    SPACE_TRY(SessionRow row, read_row(tenant, query));
    rows.push_back(std::move(row));
  }
  SPACE_CHECK_OK(query.done());
  return rows;
}

Result<std::optional<SessionRow>> read_one(const TenantId& tenant, Query& query) {
  SPACE_TRY(auto rows, read_all(tenant, query));
  if (rows.empty()) return std::optional<SessionRow>();
  return std::optional<SessionRow>(std::move(rows.front()));
}

}  // namespace

Result<void> insert_session(Database& database, const SessionRow& row) {
  if (row.name) {
    auto taken =
        database.query("SELECT id FROM sessions WHERE tenant = ? AND name = ? AND state IN " SPACE_NAMED);
    taken.bind(row.tenant.str(), *row.name);
    if (taken.step()) {
      Error error = make_error(Code::kAlreadyExists, "control.name_taken",
                               "session " + taken.text(0) + " has this name; kill it or choose another name");
      error.field = "name";
      return error;
    }
    SPACE_CHECK_OK(taken.done());
  }
  auto insert = database.query(
      "INSERT INTO sessions (tenant, id, name, state, template, vcpus, memory_bytes, disk_bytes, "
      "ttl_seconds, labels, created_us, "
      "expires_us, generation, sandbox, version) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  insert.bind(row.tenant.str(), row.id.str(), row.name, model::to_string(row.state), row.template_name,
              std::uint64_t{row.resources.vcpus}, row.resources.memory_bytes, row.resources.disk_bytes,
              row.ttl_seconds, write_labels(row.labels), to_us(row.created), to_us(row.expires),
              row.generation, row.sandbox.str(), row.version);
  SPACE_CHECK_OK(insert.run());
  return {};
}

Result<std::optional<SessionRow>> find_session(Database& database, const TenantId& tenant,
                                               const SessionId& id) {
  auto query = database.query("SELECT " SPACE_SESSION_COLUMNS " FROM sessions WHERE tenant = ? AND id = ?");
  query.bind(tenant.str(), id.str());
  return read_one(tenant, query);
}

Result<std::optional<SessionRow>> find_session_of_sandbox(Database& database, const TenantId& tenant,
                                                          const SandboxId& sandbox) {
  auto query =
      database.query("SELECT " SPACE_SESSION_COLUMNS " FROM sessions WHERE tenant = ? AND sandbox = ?");
  query.bind(tenant.str(), sandbox.str());
  return read_one(tenant, query);
}

Result<SessionRow> get_session(Database& database, const TenantId& tenant, std::string_view id_or_name) {
  SPACE_TRY(auto by_id, find_session(database, tenant, SessionId(std::string(id_or_name))));
  if (by_id) return std::move(*by_id);
  auto query = database.query("SELECT " SPACE_SESSION_COLUMNS
                              " FROM sessions WHERE tenant = ? AND name = ? "
                              "ORDER BY state IN " SPACE_NAMED " DESC, created_us DESC LIMIT 1");
  query.bind(tenant.str(), id_or_name);
  SPACE_TRY(auto by_name, read_one(tenant, query));
  if (by_name) return std::move(*by_name);
  return make_error(Code::kNotFound, "control.no_such_session", "there is no session with this id or name");
}

Result<void> update_session(Database& database, SessionRow& row) {
  auto update = database.query(
      "UPDATE sessions SET state = ?, status_reason = ?, status_message = ?, ttl_seconds = ?, started_us = "
      "?, expires_us = ?, ended_us = ?, "
      "generation = ?, sandbox = ?, sandbox_node = ?, sandbox_backend = ?, sandbox_acceleration = ?, "
      "sandbox_started_us = ?, "
      "sandbox_adopted = ?, version = version + 1 WHERE tenant = ? AND id = ? AND version = ?");
  std::optional<std::string> reason, message, node, backend, acceleration;
  std::optional<std::int64_t> sandbox_started;
  if (row.status) {
    reason = row.status->reason;
    message = row.status->message;
  }
  if (row.facts) {
    node = row.facts->node;
    backend = row.facts->backend;
    acceleration = row.facts->acceleration;
    sandbox_started = to_us(row.facts->started);
  }
  update.bind(model::to_string(row.state), reason, message, row.ttl_seconds, maybe_us(row.started),
              to_us(row.expires), maybe_us(row.ended), row.generation, row.sandbox.str(), node, backend,
              acceleration, sandbox_started, row.facts && row.facts->adopted ? 1 : 0, row.tenant.str(),
              row.id.str(), row.version);
  SPACE_TRY(auto changed, update.run());
  if (changed != 1)
    return make_error(Code::kAborted, "meta.version_conflict", "the session was changed at the same time");
  ++row.version;
  return {};
}

Result<std::vector<SessionRow>> list_sessions(Database& database, const TenantId& tenant,
                                              const SessionFilter& filter, const std::optional<Cursor>& after,
                                              std::size_t limit) {
  // A list of states becomes text such as ",creating,running," that instr() looks into.
  std::string states;
  for (auto state : filter.states) states.append(",").append(model::to_string(state));
  if (!states.empty()) states += ",";
  auto query =
      database.query("SELECT " SPACE_SESSION_COLUMNS
                     " FROM sessions WHERE tenant = ?1 AND (?2 = '' OR instr(?2, ',' || state || ',')) "
                     "AND (?3 IS NULL OR name = ?3) AND (?4 IS NULL OR (created_us, id) < (?4, ?5)) "
                     "ORDER BY created_us DESC, id DESC LIMIT ?6");
  std::optional<std::int64_t> after_us;
  std::string after_id;
  if (after) {
    after_us = after->created_us;
    after_id = after->id;
  }
  query.bind(tenant.str(), states, filter.name, after_us, after_id, static_cast<std::uint64_t>(limit));
  return read_all(tenant, query);
}

Result<std::vector<SessionRow>> live_sessions(Database& database, const TenantId& tenant) {
  auto query = database.query("SELECT " SPACE_SESSION_COLUMNS
                              " FROM sessions WHERE tenant = ? AND state IN " SPACE_LIVE);
  query.bind(tenant.str());
  return read_all(tenant, query);
}

Result<std::vector<SessionRow>> expired_sessions(Database& database, const TenantId& tenant, WallTime now) {
  auto query = database.query("SELECT " SPACE_SESSION_COLUMNS
                              " FROM sessions WHERE tenant = ? AND state IN " SPACE_LIVE
                              " AND state <> 'killing' AND expires_us <= ? ORDER BY expires_us");
  query.bind(tenant.str(), to_us(now));
  return read_all(tenant, query);
}

}  // namespace space::control::meta
