// SPDX-License-Identifier: Apache-2.0
// The store on a disk that fills up, fails and loses power: a crash loop against a model, and every step of
// the main operations failing in every way.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "imager/store/testing/harness.h"

namespace space::imager::store {
namespace {

using namespace testing;
using blob::FaultKind;

#define ASSERT_OK(result) ASSERT_TRUE((result).ok()) << (result).error().describe()

struct Contents {
  Model memory;
  Model disk;
};
struct Known {
  SnapshotId id;
  Contents contents;
};
// What the store should hold.
using World = std::map<SessionId, std::vector<Known>>;

// One random operation: what it does to the store and what it would do to the world.
struct Operation {
  std::string name;
  std::function<Result<std::optional<SnapshotId>>(Store&)> run;
  SessionId session;             // the one that may change; empty = none
  std::optional<Contents> adds;  // a snapshot with these contents
  std::vector<SnapshotId> removes;
  bool removes_session = false;
};

class Driver {
 public:
  explicit Driver(std::uint64_t seed) : random_(seed), harness(seed) {}

  Operation choose() {
    auto kind = random_() % 10;
    SessionId session = session_named(static_cast<char>('a' + random_() % 4));
    bool exists = world.contains(session) && !world[session].empty();
    if (kind == 0) {
      return {"collect",
              [](Store& store) -> Result<std::optional<SnapshotId>> {
                auto done = store.collect(kTenant);
                // Not yet anything to collect, or a collector that died has still its lease.
                if (!done.ok() && done.error().reason != "store.gc_busy" &&
                    done.error().code != Code::kNotFound) {
                  return std::move(done).error();
                }
                return std::optional<SnapshotId>();
              },
              {},
              {},
              {},
              false};
    }
    if (kind == 1 && exists) {
      std::vector<SnapshotId> victims{world[session][random_() % world[session].size()].id};
      return {"remove",
              [=](Store& store) -> Result<std::optional<SnapshotId>> {
                SPACE_CHECK_OK(store.remove(kTenant, session, victims, {}));
                return std::optional<SnapshotId>();
              },
              session,
              {},
              victims,
              false};
    }
    if (kind == 2 && exists) {
      SessionId fresh(std::string(18, 'f') + std::to_string(10 + random_() % 90));
      if (!world.contains(fresh)) {
        const Known& source = world[session][random_() % world[session].size()];
        SnapshotId id = source.id;
        return {"fork",
                [=](Store& store) -> Result<std::optional<SnapshotId>> {
                  SPACE_TRY(auto info, store.fork(kTenant, id, fresh, {}));
                  return std::optional<SnapshotId>(info.id);
                },
                fresh,
                source.contents,
                {},
                false};
      }
    }
    return ingest(session);
  }

  Operation ingest(const SessionId& session) {
    Contents contents;
    std::optional<SnapshotId> parent;
    if (world.contains(session) && !world[session].empty()) {
      parent = world[session].back().id;
      contents = world[session].back().contents;
    }
    std::vector<Change> changes;
    std::set<std::uint64_t> used;
    for (std::uint64_t i = random_() % 30; i-- > 0;) {
      std::uint64_t unit = random_() % (kMemoryBytes / kPageBytes);
      if (!used.insert(unit).second) continue;
      Change change{MapKind::kMemory, unit, std::nullopt};
      if (random_() % 8 != 0) change.content = page_of(random_() % 64);  // few kinds: duplicates
      changes.push_back(change);
    }
    if (random_() % 2 == 0) {
      changes.push_back(
          {MapKind::kDisk, random_() % (kDiskBytes / kBlockBytes), page_of(random_() % 8, kBlockBytes)});
    }
    for (const Change& change : changes) {
      Model& model = change.map == MapKind::kMemory ? contents.memory : contents.disk;
      if (change.content) {
        model[change.unit] = *change.content;
      } else {
        model.erase(change.unit);
      }
    }
    IngestOptions options = ingest_options(session, parent);
    WallTime time = harness.clock.wall();
    return {"ingest",
            [=](Store& store) -> Result<std::optional<SnapshotId>> {
              SPACE_TRY(auto info, take(store, options, changes, meta_at(time), page_of(3, 1000)));
              return std::optional<SnapshotId>(info.id);
            },
            session,
            contents,
            {},
            false};
  }

  void apply(const Operation& operation, std::optional<SnapshotId> id) {
    if (operation.session.empty()) return;
    auto& snapshots = world[operation.session];
    for (const SnapshotId& removed : operation.removes) {
      std::erase_if(snapshots, [&](const Known& known) { return known.id == removed; });
    }
    if (operation.adds && id) snapshots.push_back({*id, *operation.adds});
  }

  // What is listed of the operation's session decides whether it took place.
  void settle(const Operation& operation) {
    if (operation.session.empty()) return;
    auto listed = harness.store->list(kTenant, operation.session);
    std::vector<SnapshotInfo> snapshots = listed.ok() ? *listed : std::vector<SnapshotInfo>();
    auto& known = world[operation.session];
    for (const SnapshotInfo& info : snapshots) {
      bool old = std::ranges::find(known, info.id, &Known::id) != known.end();
      if (!old) {
        ASSERT_TRUE(operation.adds.has_value()) << "a snapshot from nowhere";
        known.push_back({info.id, *operation.adds});
      }
    }
    std::erase_if(known, [&](const Known& one) {
      bool still = std::ranges::find(snapshots, one.id, &SnapshotInfo::id) != snapshots.end();
      bool may_go = std::ranges::find(operation.removes, one.id) != operation.removes.end();
      return !still && may_go;
    });
  }

  // `every` = 1 compares all contents; n the n-th part.
  void compare(std::uint64_t every) {
    for (const auto& [session, known] : world) {
      auto listed = harness.store->list(kTenant, session);
      if (known.empty() && !listed.ok()) {
        ASSERT_EQ(listed.error().code, Code::kNotFound) << listed.error().describe();
        continue;
      }
      ASSERT_OK(listed);
      ASSERT_EQ(listed->size(), known.size()) << session.str();
      for (std::size_t i = 0; i < known.size(); ++i) {
        ASSERT_EQ((*listed)[i].id, known[i].id);
        if (random_() % every != 0) continue;
        auto memory = read_map(*harness.store, kTenant, known[i].id, MapKind::kMemory);
        ASSERT_OK(memory);
        ASSERT_EQ(*memory, expected_map(known[i].contents.memory, MapKind::kMemory, kMemoryBytes));
        auto disk = read_map(*harness.store, kTenant, known[i].id, MapKind::kDisk);
        ASSERT_OK(disk);
        ASSERT_EQ(*disk, expected_map(known[i].contents.disk, MapKind::kDisk, kDiskBytes));
      }
    }
  }

  void expect_no_damage() {
    auto report = harness.store->check(CheckDepth::kEverything);
    ASSERT_OK(report);
    for (const Damage& damage : report->damage) ADD_FAILURE() << damage.object << ": " << damage.detail;
  }

  std::mt19937_64 random_;
  Harness harness;
  World world;
};

// SPACE_STORE_SEED and SPACE_STORE_ROUNDS repeat a failure and lengthen the loop.
std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

void crash_loop(std::uint64_t seed, std::uint64_t rounds) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Driver driver(seed);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    driver.harness.advance(std::chrono::seconds(1 + driver.random_() % 400));
    Operation operation = driver.choose();
    bool crash = driver.random_() % 2 == 0;
    if (crash) driver.harness.files.inject({FaultKind::kCrash, 1 + driver.random_() % 60});
    auto done = operation.run(*driver.harness.store);
    if (driver.harness.files.crashed()) {
      driver.harness.crash();
      driver.settle(operation);
    } else {
      driver.harness.files.clear_faults();
      ASSERT_TRUE(done.ok()) << operation.name << ": " << done.error().describe();
      driver.apply(operation, *done);
    }
    ASSERT_NO_FATAL_FAILURE(driver.compare(8));
    if (::testing::Test::HasFailure()) return;
  }
  driver.compare(1);
  driver.expect_no_damage();
}

TEST(StoreCrash, AfterEveryPowerFailureTheStoreHoldsTheOldOrTheNewState) {
  std::uint64_t seed = from_environment("SPACE_STORE_SEED", 20261130);
  std::uint64_t rounds = from_environment("SPACE_STORE_ROUNDS", 120);
  std::printf("seeds %llu..%llu, %llu rounds each\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(seed + 3), static_cast<unsigned long long>(rounds));
  for (std::uint64_t i = 0; i < 4 && !HasFailure(); ++i) crash_loop(seed + i, rounds);
}

// Runs one operation again and again from the same starting point, the fault at each of its steps in turn.
void every_step(FaultKind kind, bool sticky, const std::function<Operation(Driver&)>& make) {
  Driver driver(7);
  for (int i = 0; i < 4; ++i) {
    Operation operation = driver.ingest(session_named(static_cast<char>('a' + i % 2)));
    auto done = operation.run(*driver.harness.store);
    ASSERT_OK(done);
    driver.apply(operation, *done);
  }
  Operation operation = make(driver);
  auto image = driver.harness.files.image_for_test();
  World world = driver.world;
  for (std::uint64_t step = 1;; ++step) {
    SCOPED_TRACE(operation.name + " step " + std::to_string(step));
    ASSERT_LT(step, 500u);
    driver.harness.store.reset();
    driver.harness.files.restore_for_test(*image);
    driver.harness.reopen();
    driver.world = world;
    auto before = driver.harness.files.steps();
    driver.harness.files.inject({kind, step, sticky});
    auto done = operation.run(*driver.harness.store);
    bool reached = driver.harness.files.steps() - before >= step;
    if (driver.harness.files.crashed()) driver.harness.crash();
    if (!sticky || kind == FaultKind::kCrash) driver.harness.files.clear_faults();
    if (kind == FaultKind::kNoSpace && sticky) {
      // The disk is still full: everything that was there goes on.
      ASSERT_NO_FATAL_FAILURE(driver.settle(operation));
      ASSERT_NO_FATAL_FAILURE(driver.compare(2));
      driver.harness.files.clear_faults();
      driver.world = world;
    }
    if (done.ok()) {
      driver.apply(operation, *done);
    } else {
      ASSERT_NO_FATAL_FAILURE(driver.settle(operation));
    }
    ASSERT_NO_FATAL_FAILURE(driver.compare(2));
    driver.expect_no_damage();
    // And it goes on working.
    driver.harness.advance(std::chrono::seconds(1000));
    Operation next = driver.ingest(session_named('a'));
    auto after = next.run(*driver.harness.store);
    ASSERT_OK(after);
    if (::testing::Test::HasFailure()) return;
    if (!reached) return;
  }
}

Operation an_ingest(Driver& driver) {
  return driver.ingest(session_named('a'));
}
Operation a_removal(Driver& driver) {
  SessionId session = session_named('a');
  std::vector<SnapshotId> victims{driver.world[session].front().id};
  return {"remove",
          [=](Store& store) -> Result<std::optional<SnapshotId>> {
            SPACE_CHECK_OK(store.remove(kTenant, session, victims, {}));
            return std::optional<SnapshotId>();
          },
          session,
          {},
          victims,
          false};
}
Operation a_fork(Driver& driver) {
  const Known& source = driver.world[session_named('a')].back();
  SnapshotId id = source.id;
  return {"fork",
          [=](Store& store) -> Result<std::optional<SnapshotId>> {
            SPACE_TRY(auto info, store.fork(kTenant, id, session_named('f'), {}));
            return std::optional<SnapshotId>(info.id);
          },
          session_named('f'),
          source.contents,
          {},
          false};
}
Operation a_collection(Driver& driver) {
  Operation removal = a_removal(driver);
  auto done = removal.run(*driver.harness.store);
  driver.apply(removal, std::nullopt);
  done.ignore("tested on its own");
  return {"collect",
          [](Store& store) -> Result<std::optional<SnapshotId>> {
            for (int i = 0; i < 2; ++i) SPACE_CHECK_OK(store.collect(kTenant));
            return std::optional<SnapshotId>();
          },
          {},
          {},
          {},
          false};
}

TEST(StoreFault, PowerFailureAtEveryStepOfAnIngest) {
  every_step(FaultKind::kCrash, false, an_ingest);
}
TEST(StoreFault, PowerFailureAtEveryStepOfARemoval) {
  every_step(FaultKind::kCrash, false, a_removal);
}
TEST(StoreFault, PowerFailureAtEveryStepOfAFork) {
  every_step(FaultKind::kCrash, false, a_fork);
}
TEST(StoreFault, PowerFailureAtEveryStepOfACollection) {
  every_step(FaultKind::kCrash, false, a_collection);
}
TEST(StoreFault, AFullDiskAtEveryStepOfAnIngestFailsThatIngestOnly) {
  every_step(FaultKind::kNoSpace, true, an_ingest);
}
TEST(StoreFault, AFullDiskAtEveryStepOfAFork) {
  every_step(FaultKind::kNoSpace, true, a_fork);
}
TEST(StoreFault, AFullDiskAtEveryStepOfACollection) {
  every_step(FaultKind::kNoSpace, true, a_collection);
}
TEST(StoreFault, AnIoErrorAtEveryStepOfAnIngest) {
  every_step(FaultKind::kIo, false, an_ingest);
}
TEST(StoreFault, AnIoErrorAtEveryStepOfARemoval) {
  every_step(FaultKind::kIo, false, a_removal);
}
TEST(StoreFault, AnIoErrorAtEveryStepOfAFork) {
  every_step(FaultKind::kIo, false, a_fork);
}
TEST(StoreFault, AnIoErrorAtEveryStepOfACollection) {
  every_step(FaultKind::kIo, false, a_collection);
}
TEST(StoreFault, ShortWritesAtEveryStepOfAnIngest) {
  every_step(FaultKind::kShortWrite, false, an_ingest);
}

TEST(StoreFault, AFailingReadIsAnErrorAndTheNextOneSucceeds) {
  Harness h;
  auto taken = take(*h.store, ingest_options(session_named('a'), {}), {{MapKind::kMemory, 0, page_of(1)}});
  ASSERT_OK(taken);
  for (std::uint64_t nth = 1; nth < 64; ++nth) {
    h.reopen();
    h.files.fail_read(nth);
    auto got = read_map(*h.store, kTenant, taken->id, MapKind::kMemory);
    if (got.ok()) {
      EXPECT_GE(nth, 4u);
      return;
    }
    EXPECT_NE(got.error().code, Code::kDataLoss) << got.error().describe();
    h.files.clear_faults();
    auto again = read_map(*h.store, kTenant, taken->id, MapKind::kMemory);
    ASSERT_OK(again);
    EXPECT_EQ(*again, expected_map({{0, page_of(1)}}, MapKind::kMemory, kMemoryBytes));
  }
  FAIL() << "reading never succeeded";
}

TEST(StoreFault, WithoutSpaceForItsReservationAnIngestDoesNotBegin) {
  Harness h;
  h.files.set_capacity(1u << 20);
  IngestOptions options = ingest_options(session_named('a'), {});
  options.reserve_bytes = 2u << 20;
  EXPECT_EQ(h.store->begin_ingest(options).error().reason, "store.no_space");
}

}  // namespace
}  // namespace space::imager::store
