// SPDX-License-Identifier: Apache-2.0
#pragma once
// One SQLite connection with its prepared statements. Blocking; used from the database thread only (store.h).
//
//   auto q = db.query("SELECT name FROM sessions WHERE tenant = ? AND id = ?");
//   q.bind(tenant, id);
//   while (q.step()) use(q.text(0));
//   SPACE_TRY(..., q.done());         // an error of any step, bind or prepare comes out here
//
// WAL, synchronous=FULL: a transaction that has committed survives power failure.
// Errors of everything: meta.constraint (already_exists), meta.disk_full (resource_exhausted), meta.corrupt
// (data_loss), meta.failed (internal).

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "lib/base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace space::control::meta {

class Database;

// One execution of a prepared statement. Resource type; lives shorter than its Database, one at a time per
// SQL text.
class Query {
 public:
  Query(Query&&) noexcept;
  Query& operator=(Query&&) = delete;
  ~Query();

  template <class... Values>
  Query& bind(const Values&... values) {
    int at = 0;
    (bind_one(++at, values), ...);
    return *this;
  }
  // Is there a (further) row? False at the end and on errors.
  bool step();
  // The outcome so far.
  Result<void> done();
  // For statements without rows: runs it. Returns the number of rows changed.
  Result<std::int64_t> run();

  // Columns of the current row, from 0. Text may hold any byte.
  [[nodiscard]] std::string text(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] std::optional<std::string> maybe_text(int column) const;
  [[nodiscard]] std::optional<std::int64_t> maybe_integer(int column) const;

 private:
  friend class Database;
  Query(Database& database, sqlite3_stmt* statement, int prepared);
  void bind_one(int at, std::int64_t value);
  void bind_one(int at, std::uint64_t value) { bind_one(at, static_cast<std::int64_t>(value)); }
  void bind_one(int at, int value) { bind_one(at, static_cast<std::int64_t>(value)); }
  void bind_one(int at, std::string_view value);
  void bind_one(int at, const std::string& value) { bind_one(at, std::string_view(value)); }
  void bind_one(int at, const char* value) { bind_one(at, std::string_view(value)); }
  template <class T>
  void bind_one(int at, const std::optional<T>& value) {
    if (value) bind_one(at, *value);  // unbound parameters are NULL
  }

  Database* database_;
  sqlite3_stmt* statement_;
  int outcome_;
};

class Database {
 public:
  // Opens or creates the file; the directory exists. Not migrated yet (migrations.h).
  static Result<std::unique_ptr<Database>> open(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // `sql` is a literal in the source: it is the key of the statement cache.
  Query query(std::string_view sql);
  // Statements without parameters or rows.
  Result<void> execute(const char* sql);

  [[nodiscard]] Error error(int outcome) const;
  [[nodiscard]] sqlite3* handle() const { return handle_; }

 private:
  Database() = default;
  sqlite3* handle_ = nullptr;
  std::unordered_map<std::string, sqlite3_stmt*> statements_;
};

}  // namespace space::control::meta
