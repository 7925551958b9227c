// SPDX-License-Identifier: Apache-2.0
#include "control/meta/store.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>

#include <boost/asio/co_spawn.hpp>

#include "control/meta/migrations.h"
#include "control/meta/operations.h"
#include "control/meta/sessions.h"
#include "lib/os/file.h"
#include "lib/os/random.h"

namespace space::control::meta {
namespace {

using async::Task;

const TenantId kTenant{"tenantaaaaaaaaaaa"};
const TenantId kOther{"tenantbbbbbbbbbbb"};

struct Folder {
  std::string path;
  Folder() {
    char pattern[] = "/tmp/space-meta-XXXXXX";
    path = ::mkdtemp(pattern);
  }
  ~Folder() { os::remove_tree(path).ignore("test clean-up"); }
  [[nodiscard]] std::string file() const { return path + "/meta.db"; }
};

SessionRow session(const std::string& id, std::optional<std::string> name = std::nullopt) {
  SessionRow row;
  row.tenant = kTenant;
  row.id = SessionId(id);
  row.name = std::move(name);
  row.template_name = "base";
  row.resources = {1, 512u << 20, 1ULL << 33};
  row.ttl_seconds = 60;
  row.labels = {{"k", "v\"\n"}};
  row.created = from_us(1000);
  row.expires = from_us(2000);
  row.sandbox = SandboxId("box" + id);
  return row;
}

std::unique_ptr<Database> open(const Folder& folder) {
  auto database = Database::open(folder.file());
  EXPECT_TRUE(database.ok());
  EXPECT_TRUE(migrate(**database).ok());
  return std::move(*database);
}

TEST(MetaDatabase, OpensThroughADescriptorOfItsDirectory) {
  Folder folder;
  auto directory = *os::open_file(folder.path, O_RDONLY | O_DIRECTORY);
  std::string path = "/proc/self/fd/" + std::to_string(directory.get()) + "/meta.db";
  auto database = Database::open(path);
  ASSERT_TRUE(database.ok());
  EXPECT_TRUE(migrate(**database).ok());
  EXPECT_TRUE(os::exists(folder.file()));
  // SQLite did not replace the path by the one behind the link.
  EXPECT_EQ(std::string(sqlite3_db_filename((*database)->handle(), "main")), path);
}

TEST(MetaDatabase, MigrationsRunOnceAndANewerSchemaIsRefused) {
  Folder folder;
  {
    auto database = open(folder);
    EXPECT_TRUE(migrate(*database).ok());
    auto version = database->query("PRAGMA user_version");
    ASSERT_TRUE(version.step());
    EXPECT_EQ(version.integer(0), newest_schema());
  }
  auto database = *Database::open(folder.file());
  ASSERT_TRUE(database->execute("PRAGMA user_version = 9999").ok());
  EXPECT_EQ(migrate(*database).error().reason, "meta.newer_schema");
}

TEST(MetaDatabase, EveryTableButThatOfTenantsHasATenantFirst) {
  Folder folder;
  auto database = open(folder);
  auto tables =
      database->query("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
  std::vector<std::string> names;
  while (tables.step()) names.push_back(tables.text(0));
  EXPECT_GE(names.size(), 6U);
  for (const auto& name : names) {
    std::string sql = "PRAGMA table_info(" + name + ")";
    auto columns = database->query(sql);
    ASSERT_TRUE(columns.step());
    EXPECT_EQ(columns.text(1), "tenant") << name;
    EXPECT_EQ(columns.integer(5), 1) << name << ": first in the primary key";
  }
}

TEST(MetaDatabase, IsWriteAheadSyncedAndStrict) {
  Folder folder;
  auto database = open(folder);
  auto mode = database->query("PRAGMA journal_mode");
  ASSERT_TRUE(mode.step());
  EXPECT_EQ(mode.text(0), "wal");
  auto synchronous = database->query("PRAGMA synchronous");
  ASSERT_TRUE(synchronous.step());
  EXPECT_EQ(synchronous.integer(0), 2);
  EXPECT_FALSE(database->execute("INSERT INTO tenants VALUES ('t', 'n', 'not a number')").ok());
}

TEST(MetaSessions, ARowReadsBackAsItWasWritten) {
  Folder folder;
  auto database = open(folder);
  auto row = session("aaaaaaaaaaaaaaaaaaaa", "web");
  ASSERT_TRUE(insert_session(*database, row).ok());
  auto back = **find_session(*database, kTenant, row.id);
  EXPECT_EQ(back.name, row.name);
  EXPECT_EQ(back.labels, row.labels);
  EXPECT_EQ(back.resources, row.resources);
  EXPECT_EQ(back.expires, row.expires);
  EXPECT_FALSE(back.status || back.started || back.ended || back.facts);
  back.state = model::SessionState::kRunning;
  back.started = from_us(5);
  back.status = Status{"a.b", "c"};
  back.facts = SandboxFacts{"n", "qemu", "tcg", from_us(4), true};
  ASSERT_TRUE(update_session(*database, back).ok());
  auto again = **find_session(*database, kTenant, row.id);
  EXPECT_EQ(again.facts, back.facts);
  EXPECT_EQ(again.status, back.status);
  EXPECT_EQ(again.version, 2U);
}

TEST(MetaSessions, UpdatesOfAnOldVersionAreRefused) {
  Folder folder;
  auto database = open(folder);
  auto row = session("aaaaaaaaaaaaaaaaaaaa");
  ASSERT_TRUE(insert_session(*database, row).ok());
  auto mine = row;
  auto theirs = row;
  ASSERT_TRUE(update_session(*database, theirs).ok());
  EXPECT_EQ(update_session(*database, mine).error().reason, "meta.version_conflict");
}

TEST(MetaSessions, ANameBelongsToOneSessionUntilItsEndIsDecided) {
  Folder folder;
  auto database = open(folder);
  auto first = session("aaaaaaaaaaaaaaaaaaaa", "web");
  ASSERT_TRUE(insert_session(*database, first).ok());
  EXPECT_EQ(insert_session(*database, session("bbbbbbbbbbbbbbbbbbbb", "web")).error().reason,
            "control.name_taken");
  first.state = model::SessionState::kKilling;
  ASSERT_TRUE(update_session(*database, first).ok());
  auto second = session("bbbbbbbbbbbbbbbbbbbb", "web");
  second.created = from_us(2000);
  ASSERT_TRUE(insert_session(*database, second).ok());
  EXPECT_EQ(get_session(*database, kTenant, "web")->id, second.id);
  EXPECT_EQ(get_session(*database, kTenant, first.id.str())->id, first.id);
}

TEST(MetaSessions, AnotherTenantSeesNothing) {
  Folder folder;
  auto database = open(folder);
  auto row = session("aaaaaaaaaaaaaaaaaaaa", "web");
  ASSERT_TRUE(insert_session(*database, row).ok());
  EXPECT_EQ(get_session(*database, kOther, "web").error().reason, "control.no_such_session");
  EXPECT_EQ(get_session(*database, kOther, row.id.str()).error().reason, "control.no_such_session");
  EXPECT_TRUE(list_sessions(*database, kOther, {}, std::nullopt, 10)->empty());
  EXPECT_TRUE(live_sessions(*database, kOther)->empty());
  auto theirs = row;
  theirs.tenant = kOther;
  EXPECT_FALSE(update_session(*database, theirs).ok());
  theirs.name = "web";
  EXPECT_TRUE(insert_session(*database, theirs).ok());  // names are per tenant
}

TEST(MetaSessions, PagesGoOnAfterTheirCursorNewestFirst) {
  Folder folder;
  auto database = open(folder);
  for (char c = 'a'; c < 'f'; ++c) {
    auto row = session(std::string(20, c));
    row.created = from_us(c < 'c' ? 100 : 200);  // equal times are ordered by id
    ASSERT_TRUE(insert_session(*database, row).ok());
  }
  auto first = *list_sessions(*database, kTenant, {}, std::nullopt, 3);
  ASSERT_EQ(first.size(), 3U);
  EXPECT_EQ(first[0].id.str(), std::string(20, 'e'));
  Cursor cursor{to_us(first[2].created), first[2].id.str()};
  auto second = *list_sessions(*database, kTenant, {}, cursor, 3);
  ASSERT_EQ(second.size(), 2U);
  EXPECT_EQ(second[0].id.str(), std::string(20, 'b'));
  SessionFilter filter;
  filter.states = {model::SessionState::kKilled, model::SessionState::kFailed};
  EXPECT_TRUE(list_sessions(*database, kTenant, filter, std::nullopt, 3)->empty());
}

TEST(MetaOperations, EndOnceAndKeepTheirFirstOutcome) {
  Folder folder;
  auto database = open(folder);
  OperationRow row;
  row.tenant = kTenant;
  row.id = OperationId("oooooooooooooooooooo");
  ASSERT_TRUE(insert_operation(*database, row).ok());
  EXPECT_EQ(open_operations(*database, kTenant)->size(), 1U);
  Error error = field_error("vcpus", "model.bad_vcpus", "no");
  ASSERT_TRUE(end_operation(*database, kTenant, row.id, from_us(7), error).ok());
  ASSERT_TRUE(end_operation(*database, kTenant, row.id, from_us(8), std::nullopt).ok());
  auto back = *get_operation(*database, kTenant, row.id);
  EXPECT_EQ(back.state, model::OperationState::kFailed);
  EXPECT_EQ(back.error, error);
  EXPECT_TRUE(open_operations(*database, kTenant)->empty());
  append_step(*database, kTenant, row.id, from_us(1), "one", "x").ignore("checked below");
  append_step(*database, kTenant, row.id, from_us(2), "two", "y").ignore("checked below");
  auto steps = *list_steps(*database, kTenant, row.id);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[1].step, "two");
}

// A process that is killed while it writes transactions of two rows must never leave one of the two, nor lose
// a pair that it has reported.
TEST(MetaCrash, KillInTheMiddleLeavesWholeTransactionsOnly) {
  for (int round = 0; round < 5; ++round) {
    Folder folder;
    int report[2];
    ASSERT_EQ(::pipe(report), 0);
    pid_t child = ::fork();
    if (child == 0) {
      auto database = Database::open(folder.file());
      if (!database.ok() || !migrate(**database).ok()) ::_exit(1);
      for (int i = 0;; ++i) {
        std::string id = std::to_string(1000000 + i) + "aaaaaaaaaaaaa";
        bool fine =
            (*database)->execute("BEGIN IMMEDIATE").ok() && insert_session(**database, session(id)).ok();
        OperationRow operation;
        operation.tenant = kTenant;
        operation.id = OperationId(id);
        fine = fine && insert_operation(**database, operation).ok() && (*database)->execute("COMMIT").ok();
        if (!fine || ::write(report[1], "x", 1) != 1) ::_exit(1);
      }
    }
    ::close(report[1]);
    char byte;
    int reported = 0;
    while (reported < 20 + round && ::read(report[0], &byte, 1) == 1) ++reported;
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    while (::read(report[0], &byte, 1) == 1) ++reported;
    ::close(report[0]);
    ASSERT_TRUE(WIFSIGNALED(status));
    auto database = open(folder);
    auto sessions = list_sessions(*database, kTenant, {}, std::nullopt, 100000)->size();
    auto operations = list_operations(*database, kTenant, std::nullopt, std::nullopt, 100000)->size();
    EXPECT_EQ(sessions, operations);
    EXPECT_GE(sessions, static_cast<std::size_t>(reported));
    EXPECT_LE(sessions, static_cast<std::size_t>(reported) + 1);
  }
}

struct StoreTest : ::testing::Test {
  Folder folder;
  async::Loop loop;
  std::unique_ptr<Store> store;
  void SetUp() override { store = std::move(*Store::open(loop.get_executor(), folder.file())); }
  void run(Task<void> task) {
    boost::asio::co_spawn(loop, whole(std::move(task)), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
    loop.run();
  }
  Task<void> whole(Task<void> task) {
    co_await std::move(task);
    co_await store->stop();
  }
};

Task<void> insert_one(Store& store, int number, int& done, int& refused) {
  std::string id = std::to_string(1000000 + number) + "aaaaaaaaaaaaa";
  // Every third has a name that somebody has.
  auto row = session(id, number % 3 == 0 ? std::optional<std::string>("taken") : std::nullopt);
  auto outcome = co_await store.write([row](Database& database) { return insert_session(database, row); });
  if (outcome.ok())
    ++done;
  else
    ++refused;
}

Task<void> many_case(StoreTest& t, int& done, int& refused) {
  async::TaskScope scope(t.loop.get_executor());
  for (int i = 0; i < 300; ++i) scope.spawn(insert_one(*t.store, i, done, refused));
  co_await scope.drain();
}

TEST_F(StoreTest, OneFailingPieceOfABatchFailsAlone) {
  int done = 0;
  int refused = 0;
  run(many_case(*this, done, refused));
  EXPECT_EQ(done, 201);
  EXPECT_EQ(refused, 99);
  store.reset();
  auto database = open(folder);
  EXPECT_EQ(list_sessions(*database, kTenant, {}, std::nullopt, 1000)->size(), 201U);
}

Task<void> half_case(StoreTest& t) {
  auto outcome = co_await t.store->write([](Database& database) -> Result<void> {
    SPACE_CHECK_OK(insert_session(database, session("aaaaaaaaaaaaaaaaaaaa")));
    return make_error(Code::kAborted, "test.no", "after the first row");
  });
  EXPECT_EQ(outcome.error().reason, "test.no");
  auto left = co_await t.store->read(
      [](Database& database) { return list_sessions(database, kTenant, {}, std::nullopt, 10); });
  EXPECT_TRUE(left->empty());
}

TEST_F(StoreTest, WorkThatFailsLeavesNothing) {
  run(half_case(*this));
}

}  // namespace
}  // namespace space::control::meta
