// SPDX-License-Identifier: Apache-2.0
#include "control/meta/database.h"

#include <sqlite3.h>

#include "control/meta/vfs.h"

namespace space::control::meta {

Query::Query(Database& database, sqlite3_stmt* statement, int prepared)
    : database_(&database), statement_(statement), outcome_(prepared) {}

Query::Query(Query&& other) noexcept
    : database_(other.database_), statement_(other.statement_), outcome_(other.outcome_) {
  other.statement_ = nullptr;
}

Query::~Query() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

void Query::bind_one(int at, std::int64_t value) {
  if (statement_ == nullptr || outcome_ != SQLITE_OK) return;
  outcome_ = sqlite3_bind_int64(statement_, at, value);
}

void Query::bind_one(int at, std::string_view value) {
  if (statement_ == nullptr || outcome_ != SQLITE_OK) return;
  const char* data = value.data() == nullptr ? "" : value.data();
  // SAFETY: SQLITE_TRANSIENT, the marker -1 as a function pointer, makes SQLite copy the bytes.
  outcome_ = sqlite3_bind_text64(statement_, at, data, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}

bool Query::step() {
  if (statement_ == nullptr || (outcome_ != SQLITE_OK && outcome_ != SQLITE_ROW)) return false;
  outcome_ = sqlite3_step(statement_);
  return outcome_ == SQLITE_ROW;
}

Result<void> Query::done() {
  if (outcome_ == SQLITE_OK || outcome_ == SQLITE_ROW || outcome_ == SQLITE_DONE) return {};
  return database_->error(outcome_);
}

Result<std::int64_t> Query::run() {
  while (step()) {
  }
  SPACE_CHECK_OK(done());
  return std::int64_t{sqlite3_changes64(database_->handle())};
}

std::string Query::text(int column) const {
  const unsigned char* data = sqlite3_column_text(statement_, column);
  if (data == nullptr) return {};
  // SAFETY: SQLite's text is bytes of the size it says, valid until the next step.
  return {reinterpret_cast<const char*>(data),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

std::int64_t Query::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::optional<std::string> Query::maybe_text(int column) const {
  if (sqlite3_column_type(statement_, column) == SQLITE_NULL) return std::nullopt;
  return text(column);
}

std::optional<std::int64_t> Query::maybe_integer(int column) const {
  if (sqlite3_column_type(statement_, column) == SQLITE_NULL) return std::nullopt;
  return integer(column);
}

Result<std::unique_ptr<Database>> Database::open(const std::string& path) {
  SPACE_CHECK_OK(register_vfs());
  std::unique_ptr<Database> database(new Database());
  constexpr int kFlags =
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  int outcome = sqlite3_open_v2(path.c_str(), &database->handle_, kFlags, kVfsName);
  if (outcome != SQLITE_OK) return database->error(outcome).context("cannot open the database");
  sqlite3_busy_timeout(database->handle_, 5000);
  // temp_store=MEMORY: this process can write nowhere but into its directory.
  SPACE_CHECK_OK(database->execute("PRAGMA journal_mode = WAL"));
  SPACE_CHECK_OK(database->execute("PRAGMA synchronous = FULL"));
  SPACE_CHECK_OK(database->execute("PRAGMA temp_store = MEMORY"));
  SPACE_CHECK_OK(database->execute("PRAGMA foreign_keys = ON"));
  SPACE_CHECK_OK(database->execute("PRAGMA trusted_schema = OFF"));
  return database;
}

Database::~Database() {
  for (auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  if (handle_ != nullptr) sqlite3_close_v2(handle_);
}

Query Database::query(std::string_view sql) {
  auto found = statements_.find(std::string(sql));
  if (found != statements_.end()) return {*this, found->second, SQLITE_OK};
  sqlite3_stmt* statement = nullptr;
  int outcome = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()),
                                   SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (outcome != SQLITE_OK) return {*this, nullptr, outcome};
  statements_.emplace(sql, statement);
  return {*this, statement, SQLITE_OK};
}

Result<void> Database::execute(const char* sql) {
  int outcome = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  if (outcome != SQLITE_OK) return error(outcome);
  return {};
}

Error Database::error(int outcome) const {
  std::string message = handle_ == nullptr ? sqlite3_errstr(outcome) : sqlite3_errmsg(handle_);
  switch (outcome & 0xff) {
    case SQLITE_CONSTRAINT:
      return make_error(Code::kAlreadyExists, "meta.constraint", std::move(message));
    case SQLITE_FULL:
      return make_error(Code::kResourceExhausted, "meta.disk_full", "the disk of the control plane is full");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return make_error(Code::kDataLoss, "meta.corrupt", "the database is damaged: " + message);
    default:
      return make_error(Code::kInternal, "meta.failed", "the database failed: " + message);
  }
}

}  // namespace space::control::meta
