// SPDX-License-Identifier: Apache-2.0
// Operations of the control plane against a scripted node, on a clock that stands still until it is moved.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <set>

#include "control/control.h"
#include "control/meta/operations.h"
#include "control/meta/sessions.h"
#include "lib/os/file.h"
#include "tests/testkit/platform/fake_link.h"
#include "tests/testkit/platform/fake_node.h"

namespace space::control {
namespace {

using namespace std::chrono_literals;
using async::Task;
using model::SessionState;

constexpr const char* kKey = "space_testkey";

os::Fd listen_anywhere() {
  os::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // SAFETY: sockaddr_in is a sockaddr for AF_INET.
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(fd.get(), 16), 0);
  return fd;
}

struct EngineTest : ::testing::Test {
  std::string dir;
  async::Loop loop;
  SimulatedClock clock;
  os::SystemRandom random;
  testkit::FakeSandboxes sandboxes;
  std::unique_ptr<testkit::FakeNode> node;
  std::unique_ptr<testkit::FakeLink> link;
  os::Fd log_file;
  std::unique_ptr<obs::Log> log;
  std::unique_ptr<Control> control;

  void SetUp() override {
    char pattern[] = "/tmp/space-engine-XXXXXX";
    dir = ::mkdtemp(pattern);
    log_file = *os::open_file(dir + "/log", O_WRONLY | O_CREAT | O_APPEND);
    log = std::make_unique<obs::Log>(log_file.get(), "control", clock);
    node = std::make_unique<testkit::FakeNode>(loop.get_executor(), dir + "/node.sock", sandboxes);
    link = std::make_unique<testkit::FakeLink>(loop.get_executor(), dir + "/link.sock", sandboxes);
  }
  void TearDown() override { os::remove_tree(dir).ignore("test clean-up"); }

  void run(Task<void> task) {
    boost::asio::co_spawn(loop, whole(std::move(task)), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
    loop.run();
  }
  Task<void> whole(Task<void> task) {
    node->start();
    link->start();
    co_await start();
    co_await std::move(task);
    node->release();  // whatever a test held must not hold the end up
    if (control) co_await control->stop(Control::Sessions::kKill);
    co_await node->stop();
    co_await link->stop();
  }
  Task<void> start() {
    ControlOptions options;
    options.api_listener = listen_anywhere();
    options.state_directory = dir;
    options.connect_node = rpc::Client::to_path(dir + "/node.sock");
    options.connect_link = rpc::Client::to_path(dir + "/link.sock");
    options.admin_key_sha256 = sha256_hex(kKey);
    options.expiry_every = 1h;  // tests call expire_due()
    options.reconcile_every = 1h;
    options.request_grace = 10ms;
    control = std::make_unique<Control>(loop.get_executor(), std::move(options), clock, random, *log);
    EXPECT_TRUE((co_await control->start()).ok());
    while (!control->watcher().reconciled()) co_await async::sleep_for(1ms);
  }
  // What was under way stays where it is, in the journal and at the node. (Kill -9 of the real process:
  // tests/conformance/test_sessions.py.)
  Task<void> crash() {
    co_await control->stop(Control::Sessions::kLeave);
    control.reset();
  }

  Task<operations::Accepted> create(model::SessionRequest request = {}) {
    co_return *co_await control->engine().create_session(kDefaultTenant, std::move(request), std::nullopt);
  }
  Task<meta::SessionRow> session(std::string id) {
    co_return *co_await control->store().read(
        [id](meta::Database& database) { return meta::get_session(database, kDefaultTenant, id); });
  }
  Task<meta::SessionRow> running(model::SessionRequest request = {}) {
    auto accepted = co_await create(std::move(request));
    (co_await control->engine().wait(kDefaultTenant, *accepted.operation)).ignore("checked by the state");
    co_return co_await session(accepted.session.id.str());
  }
  Task<meta::SessionRow> killed(std::string id) {
    auto accepted = co_await control->engine().kill_session(kDefaultTenant, id, operations::kKilledByRequest,
                                                            std::nullopt);
    if (accepted->operation)
      (co_await control->engine().wait(kDefaultTenant, *accepted->operation)).ignore("checked by the state");
    co_return co_await session(id);
  }
};

Task<void> expiry_case(EngineTest& t) {
  model::SessionRequest request;
  request.ttl_seconds = 100;
  auto row = co_await t.running(request);
  EXPECT_EQ(row.expires, row.created + 100s);
  t.clock.advance(99s);
  co_await t.control->engine().expire_due();
  EXPECT_EQ((co_await t.session(row.id.str())).state, SessionState::kRunning);
  auto moved = co_await t.control->engine().extend_session(kDefaultTenant, row.id.str(), 50);
  EXPECT_EQ(moved->expires, t.clock.wall() + 50s);
  t.clock.advance(10s);
  co_await t.control->engine().expire_due();
  EXPECT_EQ((co_await t.session(row.id.str())).state, SessionState::kRunning);
  t.clock.advance(40s);
  co_await t.control->engine().expire_due();
  auto ended = co_await t.killed(row.id.str());  // joins the kill under way
  EXPECT_EQ(ended.state, SessionState::kKilled);
  EXPECT_EQ(ended.status->reason, "control.expired");
  EXPECT_TRUE(t.sandboxes.empty());
}
TEST_F(EngineTest, ASessionEndsExactlyAtItsDeadlineAndTheDeadlineMoves) {
  run(expiry_case(*this));
}

Task<void> expiry_of_creation_case(EngineTest& t) {
  t.node->hold_creates = true;
  model::SessionRequest request;
  request.ttl_seconds = 5;
  auto accepted = co_await t.create(request);
  t.clock.advance(6s);
  co_await t.control->engine().expire_due();
  auto operation = co_await t.control->engine().wait(kDefaultTenant, *accepted.operation);
  EXPECT_EQ(operation->error->reason, "control.cancelled");
  EXPECT_EQ((co_await t.killed(accepted.session.id.str())).status->reason, "control.expired");
  EXPECT_TRUE(t.sandboxes.empty());
}
TEST_F(EngineTest, ASessionThatIsStillCreatedExpiresToo) {
  run(expiry_of_creation_case(*this));
}

Task<void> late_resume_case(EngineTest& t) {
  t.node->hold_creates = true;
  auto accepted = co_await t.create();
  while (t.node->creates == 0) co_await async::sleep_for(1ms);
  co_await t.crash();
  t.clock.advance(10min);  // past the operation's deadline, within the session's
  co_await t.start();
  auto operation = co_await t.control->engine().wait(kDefaultTenant, *accepted.operation);
  EXPECT_EQ(operation->error->reason, "control.create_deadline");
  auto row = co_await t.session(accepted.session.id.str());
  EXPECT_EQ(row.state, SessionState::kFailed);
  EXPECT_EQ(row.status->reason, "control.create_deadline");
  while (!t.sandboxes.empty()) co_await async::sleep_for(1ms);
  EXPECT_EQ((co_await t.killed(row.id.str())).state, SessionState::kKilled);
}
TEST_F(EngineTest, ACreateThatIsResumedTooLateIsUndone) {
  run(late_resume_case(*this));
}

Task<void> resume_case(EngineTest& t) {
  t.node->hold_creates = true;
  auto accepted = co_await t.create();
  while (t.node->creates == 0) co_await async::sleep_for(1ms);
  co_await t.crash();
  t.node->release();
  co_await t.start();
  auto operation = co_await t.control->engine().wait(kDefaultTenant, *accepted.operation);
  EXPECT_FALSE(operation->error);
  EXPECT_EQ((co_await t.session(accepted.session.id.str())).state, SessionState::kRunning);
  EXPECT_EQ(t.sandboxes.size(), 1U);
}
TEST_F(EngineTest, ACreateThatIsResumedInTimeIsFinished) {
  run(resume_case(*this));
}

Task<void> joined_kills_case(EngineTest& t) {
  auto row = co_await t.running();
  std::set<std::string> operations;
  for (int i = 0; i < 5; ++i) {
    auto accepted = co_await t.control->engine().kill_session(kDefaultTenant, row.id.str(),
                                                              operations::kKilledByRequest, std::nullopt);
    if (accepted->operation) operations.insert(accepted->operation->str());
  }
  EXPECT_EQ(operations.size(), 1U);
  EXPECT_EQ((co_await t.killed(row.id.str())).state, SessionState::kKilled);
  EXPECT_EQ(t.node->destroys, 1);
}
TEST_F(EngineTest, KillsAtTheSameTimeAreOneOperation) {
  run(joined_kills_case(*this));
}

Task<void> deleted_key_case(EngineTest& t) {
  auto& keyring = t.control->keyring();
  EXPECT_EQ(keyring.tenant_of(kKey), kDefaultTenant);
  EXPECT_FALSE(keyring.tenant_of(std::string(kKey) + "x"));
  EXPECT_FALSE(keyring.tenant_of(""));
  EXPECT_TRUE((co_await keyring.revoke(kDefaultTenant, keyring.keys().front().id)).ok());
  EXPECT_FALSE(keyring.tenant_of(kKey));
  EXPECT_EQ((co_await keyring.revoke(kDefaultTenant, "nosuchkey")).error().reason, "control.no_such_key");
}
TEST_F(EngineTest, ARevokedKeyIsRefusedFromThatMomentOn) {
  run(deleted_key_case(*this));
}

std::size_t open_descriptors() {
  return os::list_directory("/proc/self/fd")->size();
}

Task<void> rounds_case(EngineTest& t) {
  co_await t.killed((co_await t.running()).id.str());
  std::size_t before = open_descriptors();
  for (int i = 0; i < 200; ++i) co_await t.killed((co_await t.running()).id.str());
  EXPECT_TRUE(t.sandboxes.empty());
  EXPECT_EQ(open_descriptors(), before);
  auto live = co_await t.control->store().read(
      [](meta::Database& database) { return meta::live_sessions(database, kDefaultTenant); });
  EXPECT_TRUE(live->empty());
  auto open = co_await t.control->store().read(
      [](meta::Database& database) { return meta::open_operations(database, kDefaultTenant); });
  EXPECT_TRUE(open->empty());
}
TEST_F(EngineTest, TwoHundredRoundsLeaveNothing) {
  run(rounds_case(*this));
}

// Creates, kills, sandboxes that die, strays and crashes of this process in random order; afterwards database
// and node agree, whatever the order was.
Task<void> storm_case(EngineTest& t, std::uint64_t seed) {
  os::SeededRandom dice(seed);
  auto roll = [&dice](unsigned sides) {
    std::array<std::byte, 2> bytes;
    dice.fill(bytes);
    return (static_cast<unsigned>(bytes[0]) * 256 + static_cast<unsigned>(bytes[1])) % sides;
  };
  std::vector<std::string> ids;
  for (int step = 0; step < 120; ++step) {
    switch (roll(8)) {
      case 0:
      case 1:
      case 2: {
        auto accepted = co_await t.control->engine().create_session(kDefaultTenant, {}, std::nullopt);
        if (accepted.ok()) ids.push_back(accepted->session.id.str());
        break;
      }
      case 3:
      case 4:
        if (!ids.empty()) {
          (co_await t.control->engine().kill_session(kDefaultTenant,
                                                     ids[roll(static_cast<unsigned>(ids.size()))],
                                                     operations::kKilledByRequest, std::nullopt))
              .ignore("any state is fine");
        }
        break;
      case 5:
        if (!t.sandboxes.empty()) t.node->end_sandbox(t.sandboxes.begin()->first, "node.vmm_exited", "");
        break;
      case 6:
        t.node->hold_creates ? t.node->release() : void(t.node->hold_creates = true);
        break;
      case 7:
        if (roll(4) == 0) {
          co_await t.crash();
          co_await t.start();
        }
        break;
    }
    co_await async::sleep_for(std::chrono::milliseconds(roll(2)));
  }
  t.node->release();
  for (;;) {  // until every operation is over and every death has been heard of
    auto open = co_await t.control->store().read(
        [](meta::Database& database) { return meta::open_operations(database, kDefaultTenant); });
    (co_await t.control->engine().reconcile()).ignore("the loop tries again");
    auto live = co_await t.control->store().read(
        [](meta::Database& database) { return meta::live_sessions(database, kDefaultTenant); });
    std::set<std::string> wanted;
    bool settled = open->empty();
    for (const auto& row : *live) {
      wanted.insert(row.sandbox.str());
      settled = settled && row.state == SessionState::kRunning;
    }
    std::set<std::string> present;
    for (const auto& [id, sandbox] : t.sandboxes) present.insert(id);
    if (settled && wanted == present) break;
    co_await async::sleep_for(1ms);
  }
}
TEST_F(EngineTest, AnyOrderOfEventsEndsInAgreementSeed1) {
  run(storm_case(*this, 1));
}
TEST_F(EngineTest, AnyOrderOfEventsEndsInAgreementSeed2) {
  run(storm_case(*this, 2));
}
TEST_F(EngineTest, AnyOrderOfEventsEndsInAgreementSeed3) {
  run(storm_case(*this, 3));
}

}  // namespace
}  // namespace space::control
