// SPDX-License-Identifier: Apache-2.0
// `space up` as a whole, with stand-ins for the services.
#include <arpa/inet.h>
#include <sys/socket.h>

#include "supervise/data_directory.h"
#include "supervise/supervise_fixture.h"

namespace space::supervise {
namespace {

using SpaceUp = SuperviseFixture;

TEST_F(SpaceUp, SaysReadyAloneOnStandardOutput) {
  Up up(*this);
  ASSERT_TRUE(up.ready()) << up.err();
  EXPECT_TRUE(up.out().starts_with("ready http://127.0.0.1:")) << up.out();
  EXPECT_EQ(count(up.out(), "\n"), 1U);
  up.kill(SIGTERM);
  EXPECT_EQ(up.wait(), 0) << up.err();
}

TEST_F(SpaceUp, ReportsWhatRecoveryFound) {
  Up up(*this);
  ASSERT_TRUE(up.ready()) << up.err();
  EXPECT_NE(up.err().find("adopted 1 running sandboxes: aaa"), std::string::npos) << up.err();
  EXPECT_NE(up.err().find("destroyed the remains of 1 sandboxes: bbb"), std::string::npos) << up.err();
}

TEST_F(SpaceUp, GivesEachServiceItsUserItsDescriptorsAndNothingElse) {
  Up up(*this, {"--listen", "127.0.0.1:0", "--uid-base", "1500000000"});
  ASSERT_TRUE(up.ready()) << up.err();
  EXPECT_EQ(noted("space-control", "uid"), "1500000001");
  EXPECT_EQ(noted("space-link", "uid"), "1500000002");
  EXPECT_EQ(noted("space-node", "uid"), "0");
  for (const char* name : {"space-control", "space-link"}) {
    EXPECT_EQ(noted(name, "effective"), "0000000000000000") << name;
    EXPECT_EQ(noted(name, "bounding"), "0000000000000000") << name;
    EXPECT_EQ(noted(name, "groups").find_first_not_of(" "), std::string::npos) << name;
  }
  EXPECT_EQ(noted("space-control", "descriptors"), "0,1,2,3,4,5");
  EXPECT_EQ(noted("space-link", "descriptors"), "0,1,2,3,4");
  EXPECT_EQ(noted("space-node", "descriptors"), "0,1,2,3");
  for (const char* name : {"space-control", "space-link", "space-node"})
    EXPECT_EQ(noted(name, "death"), "9") << name;
}

TEST_F(SpaceUp, RunsProgramsInADirectoryThatTheirUsersCannotReach) {
  ::chmod(root.c_str(), 0700);
  Up up(*this);
  EXPECT_TRUE(up.ready()) << up.err();
}

TEST_F(SpaceUp, KeepsKeyAndNodeIdAndTheirModes) {
  std::string key;
  for (int round = 0; round < 2; ++round) {
    Up up(*this);
    ASSERT_TRUE(up.ready()) << up.err();
    std::string now = read(data + "/admin.key");
    EXPECT_EQ(now.size(), 6 + 43 + 1U);
    EXPECT_TRUE(key.empty() || key == now);
    key = now;
    struct stat info{};
    ASSERT_EQ(::stat((data + "/admin.key").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U);
    ASSERT_EQ(::stat(data.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0700U);
    up.kill(SIGTERM);
    EXPECT_EQ(up.wait(), 0);
  }
}

TEST_F(SpaceUp, IsRefusedOnDataThatAnotherHoldsAndNamesItsPid) {
  Up first(*this);
  ASSERT_TRUE(first.ready()) << first.err();
  std::string shown;
  {
    SuperviseFixture& same = *this;
    std::string kept = root;
    root += "/bin";  // its output goes elsewhere
    Up second(same);
    root = kept;
    EXPECT_EQ(second.wait(), 1);
    shown = second.err();
  }
  EXPECT_NE(shown.find("pid " + std::to_string(first.pid())), std::string::npos) << shown;
  first.kill(SIGTERM);
  EXPECT_EQ(first.wait(), 0);
}

TEST_F(SpaceUp, SaysWhenThePortIsInUse) {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size),
            0);  // SAFETY: the socket API's own convention
  ASSERT_EQ(::listen(fd, 1), 0);
  ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);  // SAFETY: as above
  Up up(*this, {"--listen", "127.0.0.1:" + std::to_string(ntohs(address.sin_port))});
  EXPECT_EQ(up.wait(), 1);
  EXPECT_NE(up.err().find("in use"), std::string::npos) << up.err();
  ::close(fd);
}

TEST_F(SpaceUp, NeedsRootAndSaysSo) {
  ::chmod(root.c_str(), 0777);
  Up up(*this, {}, 65534);
  EXPECT_EQ(up.wait(), 1);
  EXPECT_NE(up.err().find("root"), std::string::npos) << up.err();
}

TEST_F(SpaceUp, NeedsDiskSpaceAndSaysHowMuch) {
  Up up(*this, {"--min-free", "1000T"});
  EXPECT_EQ(up.wait(), 1);
  EXPECT_NE(up.err().find("not enough disk space"), std::string::npos) << up.err();
}

TEST_F(SpaceUp, NamesAProgramThatIsMissing) {
  ::unlink((bin + "/space-link").c_str());
  Up up(*this);
  EXPECT_EQ(up.wait(), 1);
  EXPECT_NE(up.err().find("/space-link"), std::string::npos) << up.err();
}

TEST_F(SpaceUp, RestartsAServiceThatWasKilled) {
  Up up(*this);
  ASSERT_TRUE(up.ready()) << up.err();
  for (const char* name : {"space-control", "space-node", "space-link"}) {
    std::string pid = noted(name, "pid");
    ::kill(std::stoi(pid), SIGKILL);
    EXPECT_TRUE(eventually([&] { return noted(name, "pid") != pid; })) << name << up.err();
    EXPECT_NE(up.err().find(std::string(name) + " ended with signal 9"), std::string::npos) << up.err();
  }
  up.kill(SIGTERM);
  EXPECT_EQ(up.wait(), 0) << up.err();
}

TEST_F(SpaceUp, StopsControlThenNodeThenLinkAndLeavesNothing) {
  Up up(*this);
  ASSERT_TRUE(up.ready()) << up.err();
  std::vector<pid_t> pids;
  for (const char* name : {"space-control", "space-node", "space-link"})
    pids.push_back(std::stoi(noted(name, "pid")));
  up.kill(SIGINT);
  EXPECT_EQ(up.wait(), 0) << up.err();
  EXPECT_EQ(read(bin + "/order"), "space-control\nspace-node\nspace-link\n");
  for (pid_t pid : pids) EXPECT_EQ(::kill(pid, 0), -1);
}

TEST_F(SpaceUp, KilledByForceItsServicesDieWithItAndTheNextStartWorks) {
  pid_t old = 0;
  {
    Up up(*this);
    ASSERT_TRUE(up.ready()) << up.err();
    old = std::stoi(noted("space-node", "pid"));
  }  // SIGKILL
  Up next(*this);
  ASSERT_TRUE(next.ready()) << next.err();
  char program[4096];  // a zombie that its new parent hasn't reaped has none
  EXPECT_EQ(::readlink(("/proc/" + std::to_string(old) + "/exe").c_str(), program, sizeof program), -1);
  next.kill(SIGTERM);
  EXPECT_EQ(next.wait(), 0);
}

TEST_F(SpaceUp, GivesUpOnAServiceThatNeverStartsAndSaysWhy) {
  behave("space-control", "die");
  Up up(*this);
  EXPECT_EQ(up.wait(), 1);
  EXPECT_EQ(up.out(), "");
  EXPECT_NE(up.err().find("supervise.crash_loop"), std::string::npos) << up.err();
  EXPECT_NE(up.err().find("cannot go on"), std::string::npos) << up.err();
}

TEST_F(SpaceUp, KillsWhatItsServicesLeftBehind) {
  behave("space-node", "orphan");
  Up up(*this);
  ASSERT_TRUE(up.ready()) << up.err();
  up.kill(SIGTERM);
  EXPECT_EQ(up.wait(), 0) << up.err();
  EXPECT_NE(up.err().find("left over"), std::string::npos) << up.err();
}

}  // namespace
}  // namespace space::supervise
