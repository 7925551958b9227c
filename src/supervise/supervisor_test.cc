// SPDX-License-Identifier: Apache-2.0
#include "supervise/supervisor.h"

#include <boost/asio/co_spawn.hpp>

#include "supervise/supervise_fixture.h"

namespace space::supervise {
namespace {

using async::Task;
using namespace std::chrono_literals;

struct SupervisorTest : SuperviseFixture {
  async::Loop loop{1};
  std::vector<std::string> said;

  void SetUp() override {
    SuperviseFixture::SetUp();
    if (IsSkipped()) return;
    os::make_directory(data).value();
    os::make_directory(data + "/log").value();
  }
  std::unique_ptr<Supervisor> make(std::vector<std::string> names, Timing timing = {}) {
    std::vector<Service> services;
    for (const auto& name : names) services.push_back({{name, bin + "/" + name, {}, std::nullopt, {}}, 50ms});
    return std::make_unique<Supervisor>(loop, services, data + "/log", ChildrenFile(data + "/children"),
                                        timing, [this](const std::string& line) { said.push_back(line); });
  }
  void run(Task<void> task) {
    boost::asio::co_spawn(loop, std::move(task), [](std::exception_ptr error) {
      if (error) std::rethrow_exception(error);
    });
    loop.run();
  }
  bool heard(const std::string& what) const {
    return std::any_of(said.begin(), said.end(),
                       [&](const std::string& line) { return line.find(what) != std::string::npos; });
  }
  Task<void> until_started(const char* name, std::size_t times) {
    while (count(log(name), "\"started\"") < times) co_await async::sleep_for(2ms);
  }
};

Task<void> stop_deaf_one(SupervisorTest& t, Supervisor& supervisor) {
  auto started = co_await supervisor.start();
  EXPECT_TRUE(started.ok());
  if (!started.ok()) co_return;
  co_await t.until_started("space-link", 1);
  co_await supervisor.stop(Supervisor::Ending::kGraceful);
  EXPECT_TRUE(living_children(::getpid()).empty());
}

TEST_F(SupervisorTest, AServiceThatDoesNotHearIsKilledAfterItsGrace) {
  behave("space-link", "ignore-term");
  auto supervisor = make({"space-link"});
  run(stop_deaf_one(*this, *supervisor));
  EXPECT_TRUE(heard("did not stop within 50ms"));
}

Task<void> crash(Supervisor& supervisor, Result<void>& out) {
  auto started = co_await supervisor.start();
  EXPECT_TRUE(started.ok());
  if (!started.ok()) co_return;
  out = co_await supervisor.wait();
  co_await supervisor.stop(Supervisor::Ending::kAbrupt);
}

TEST_F(SupervisorTest, ACrashLoopEndsWithItsReason) {
  behave("space-node", "die");
  Timing quick;
  quick.first_pause = 1ms;
  quick.max_deaths = 3;
  auto supervisor = make({"space-link", "space-node"}, quick);
  Result<void> out;
  run(crash(*supervisor, out));
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().reason, "supervise.crash_loop");
  EXPECT_EQ(count(log("space-node"), "\"started\""), 3U);
  EXPECT_TRUE(living_children(::getpid()).empty());
}

Task<void> survive(SupervisorTest& t, Supervisor& supervisor) {
  auto started = co_await supervisor.start();
  EXPECT_TRUE(started.ok());
  if (!started.ok()) co_return;
  co_await t.until_started("space-link", 2);
  EXPECT_FALSE(supervisor.ending());
  ::kill(::getpid(), SIGTERM);
  EXPECT_TRUE((co_await supervisor.wait()).ok());
  co_await supervisor.stop(Supervisor::Ending::kGraceful);
}

TEST_F(SupervisorTest, OneDeathIsMendedAndASignalEndsTheWait) {
  behave("space-link", "die-once");
  auto supervisor = make({"space-link"});
  run(survive(*this, *supervisor));
  EXPECT_TRUE(heard("space-link ended with exit code 3"));
}

Task<void> fail_to_start(Supervisor& supervisor, Result<void>& out) {
  out = co_await supervisor.start();
}

TEST_F(SupervisorTest, AProgramThatCannotRunIsSaidAndNothingStays) {
  os::write_file_atomic(bin + "/space-node", "no program", os::Durability::kBuffered, 0755).value();
  auto supervisor = make({"space-link", "space-node"});
  Result<void> out;
  run(fail_to_start(*supervisor, out));
  EXPECT_EQ(out.error().reason, "supervise.spawn");
  EXPECT_NE(out.error().message.find("Exec format error"), std::string::npos) << out.error().message;
  EXPECT_TRUE(living_children(::getpid()).empty());
}

}  // namespace
}  // namespace space::supervise
