// SPDX-License-Identifier: Apache-2.0
// Commands, over a real channel to a real daemon process.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "guest/testing/host_side.h"
#include "lib/os/file.h"

namespace space::guest::testing {
namespace {

struct ExecTest : ::testing::Test {
  DaemonProcess daemon;
  HostSide host{daemon.take_socket()};

  static guestapi::AttachT attach(std::string id, std::uint64_t from = 0) {
    guestapi::AttachT request;
    request.command_id = std::move(id);
    request.stdout_from = from;
    return request;
  }
  static guestapi::SignalCommandT signal(std::string id, int number) {
    guestapi::SignalCommandT request;
    request.command_id = std::move(id);
    request.signal = number;
    return request;
  }
  // Waits until that many bytes of stdout have arrived.
  bool wait_output(wire::StreamId stream, std::string_view text) {
    return host.until([&] {
      return host[stream].data[1].find(text) != std::string::npos || host[stream].over();
    }) && host[stream].data[1].find(text) != std::string::npos;
  }
  static bool alive(const std::string& pid) { return !pid.empty() && ::kill(std::stoi(pid), 0) == 0; }
};

TEST_F(ExecTest, KeepsStandardOutputAndErrorApartAndPassesTheExitCode) {
  auto& call = host.call(shell("c1", "echo out; echo err >&2; exit 7"));
  ASSERT_EQ(call.reason(), "ok");
  EXPECT_EQ(call.data[1], "out\n");
  EXPECT_EQ(call.data[2], "err\n");
  ASSERT_NE(call.message<guestapi::StartedT>(), nullptr);
  EXPECT_GT(call.message<guestapi::StartedT>()->pid, 0U);
  ASSERT_NE(call.message<guestapi::ExitedT>(), nullptr);
  EXPECT_EQ(call.message<guestapi::ExitedT>()->exit_code, 7);
  EXPECT_EQ(call.message<guestapi::ExitedT>()->signal, 0);
}

TEST_F(ExecTest, StandardInputReachesTheCommandAndEndsWithTheHostsEnd) {
  auto request = exec("c1", {"cat"});
  request.open_stdin = true;
  auto stream = host.open(std::move(request));
  std::string text(1'000'003, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  ASSERT_TRUE(host.send_all(stream, text));
  host.end(stream);
  ASSERT_TRUE(host.until([&] { return host[stream].over(); }));
  EXPECT_TRUE(host[stream].data[1] == text);
  EXPECT_EQ(host[stream].message<guestapi::ExitedT>()->exit_code, 0);
}

TEST_F(ExecTest, WithoutOpenStdinTheCommandReadsNothing) {
  auto& call = host.call(exec("c1", {"cat"}));
  EXPECT_EQ(call.reason(), "ok");
  EXPECT_EQ(call.data[1], "");
}

TEST_F(ExecTest, AReaderThatGoesAwayDoesNotBlockTheHost) {
  auto request = shell("c1", "exec 0<&-; echo ready; sleep 1000");
  request.open_stdin = true;
  auto stream = host.open(std::move(request));
  ASSERT_TRUE(wait_output(stream, "ready"));
  EXPECT_TRUE(host.send_all(stream, std::string(2 << 20, 'x')));
  host.call(signal("c1", SIGKILL));
}

TEST_F(ExecTest, UnknownProgramsAndDirectoriesAreNamed) {
  EXPECT_EQ(host.call(exec("c1", {"no-such-program"})).reason(), "guest.command_not_found");
  EXPECT_EQ(host.call(exec("c2", {"/no/such/program"})).reason(), "guest.command_not_found");
  EXPECT_EQ(host.call(exec("c3", {"/etc/passwd"})).reason(), "guest.command_not_executable");
  EXPECT_EQ(host.call(exec("c4", {"/etc"})).reason(), "guest.command_not_executable");
  auto request = exec("c5", {"true"});
  request.cwd = "/no/such/directory";
  EXPECT_EQ(host.call(std::move(request)).reason(), "guest.no_directory");
  request = exec("c6", {"true"});
  request.user = "nobody-here";
  EXPECT_EQ(host.call(std::move(request)).reason(), "guest.no_user");
  // What could not be started is not kept.
  EXPECT_EQ(host.call(guestapi::ListCommandsT{}).messages.size(), 0U);
}

TEST_F(ExecTest, AMissingInterpreterIsNotAMissingCommand) {
  char path[] = "/tmp/spaced-script-XXXXXX";
  os::Fd file(::mkstemp(path));
  ASSERT_TRUE(os::write_all(file.get(), as_bytes("#!/no/such/interpreter\n")).ok());
  ::fchmod(file.get(), 0755);
  file.reset();
  EXPECT_EQ(host.call(exec("c1", {path})).reason(), "guest.command_not_executable");
  ::unlink(path);
}

TEST_F(ExecTest, AScriptWithoutInterpreterLineIsRunByTheShell) {
  char path[] = "/tmp/spaced-script-XXXXXX";
  os::Fd file(::mkstemp(path));
  ASSERT_TRUE(os::write_all(file.get(), as_bytes("echo \"$0 $1\"\n")).ok());
  ::fchmod(file.get(), 0755);
  file.reset();
  EXPECT_EQ(host.call(exec("c1", {path, "one"})).data[1], std::string(path) + " one\n");
  ::unlink(path);
}

TEST_F(ExecTest, MalformedRequestsNameTheirField) {
  EXPECT_EQ(host.call(exec("", {"true"})).status->error().field, "command_id");
  EXPECT_EQ(host.call(exec("c1", {})).status->error().field, "argv");
  EXPECT_EQ(host.call(exec("c1", {std::string("a\0b", 3)})).status->error().field, "argv");
  auto request = exec("c1", {"true"});
  auto var = std::make_unique<guestapi::EnvVarT>();
  var->name = "A=B";
  request.env.push_back(std::move(var));
  EXPECT_EQ(host.call(std::move(request)).status->error().field, "env");
}

TEST_F(ExecTest, TheEnvironmentHasDefaultsAndTheRequestWins) {
  auto request = exec("c1", {"env"});
  auto var = std::make_unique<guestapi::EnvVarT>();
  var->name = "LANG";
  var->value = "de_DE.UTF-8";
  request.env.push_back(std::move(var));
  std::string text = "\n" + host.call(std::move(request)).data[1];
  EXPECT_NE(text.find("\nLANG=de_DE.UTF-8\n"), std::string::npos);
  EXPECT_NE(text.find("\nHOME=/root\n"), std::string::npos);
  EXPECT_NE(text.find("\nUSER=root\n"), std::string::npos);
  EXPECT_NE(text.find("\nPATH=/usr/local/sbin:"), std::string::npos);
  EXPECT_EQ(text.find("\nTERM="), std::string::npos);
}

TEST_F(ExecTest, RunsAsAnotherUserWithNothingOfTheDaemons) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  auto request =
      shell("c1", "id -u; id -g; pwd; umask; grep SigBlk /proc/self/status; ls /proc/self/fd | wc -l");
  request.user = "65534";
  request.cwd = "/tmp";
  // ls itself opens one descriptor.
  EXPECT_EQ(host.call(std::move(request)).data[1],
            "65534\n65534\n/tmp\n0022\nSigBlk:\t0000000000000000\n4\n");
}

TEST_F(ExecTest, AnIdCanBeUsedOnce) {
  host.call(exec("c1", {"true"}));
  EXPECT_EQ(host.call(exec("c1", {"true"})).reason(), "guest.command_exists");
}

TEST_F(ExecTest, ATimeoutKillsTheWholeTree) {
  auto request = shell("c1", "setsid sleep 1000 & echo $!; (trap '' TERM; sleep 1000) & echo $!; wait");
  request.timeout_ms = 300;
  auto& call = host.call(std::move(request));
  ASSERT_NE(call.message<guestapi::ExitedT>(), nullptr);
  EXPECT_TRUE(call.message<guestapi::ExitedT>()->timed_out);
  EXPECT_EQ(call.message<guestapi::ExitedT>()->signal, SIGKILL);
  std::size_t line = call.data[1].find('\n');
  EXPECT_FALSE(alive(call.data[1].substr(0, line)));
  EXPECT_FALSE(alive(call.data[1].substr(line + 1)));
}

TEST_F(ExecTest, ASignalReachesTheGroupAndIsReported) {
  auto stream =
      host.open(shell("c1", "trap 'echo got; exit 3' USR1; echo ready; while :; do sleep 0.05; done"));
  ASSERT_TRUE(wait_output(stream, "ready"));
  guestapi::SignalT message;
  message.signal = SIGUSR1;
  host.message(stream, std::move(message));
  ASSERT_TRUE(host.until([&] { return host[stream].over(); }));
  EXPECT_NE(host[stream].data[1].find("got"), std::string::npos);
  EXPECT_EQ(host[stream].message<guestapi::ExitedT>()->exit_code, 3);

  auto sleeping = host.open(exec("c2", {"sleep", "1000"}));
  ASSERT_TRUE(host.until([&] { return host[sleeping].message<guestapi::StartedT>() != nullptr; }));
  EXPECT_EQ(host.call(signal("c2", SIGTERM)).reason(), "ok");
  ASSERT_TRUE(host.until([&] { return host[sleeping].over(); }));
  EXPECT_EQ(host[sleeping].message<guestapi::ExitedT>()->signal, SIGTERM);
  EXPECT_EQ(host[sleeping].message<guestapi::ExitedT>()->exit_code, -1);
  EXPECT_EQ(host.call(signal("c3", SIGTERM)).reason(), "guest.no_such_command");
  EXPECT_EQ(host.call(signal("c2", 0)).reason(), "guest.malformed_signal");
}

TEST_F(ExecTest, ATerminalHasASizeThatCanChangeAndControlsItsSession) {
  auto request = shell("c1",
                       "stty size; tty >/dev/null && echo terminal; trap 'stty size; exit' WINCH; echo "
                       "ready; while :; do sleep 0.05; done");
  request.pty = std::make_unique<guestapi::PtyT>();
  request.pty->rows = 30;
  request.pty->cols = 101;
  auto stream = host.open(std::move(request));
  ASSERT_TRUE(wait_output(stream, "ready"));
  EXPECT_NE(host[stream].data[1].find("30 101\r\nterminal\r\n"), std::string::npos);
  guestapi::ResizeT resize;
  resize.rows = 40;
  resize.cols = 90;
  host.message(stream, std::move(resize));
  ASSERT_TRUE(host.until([&] { return host[stream].over(); }));
  EXPECT_NE(host[stream].data[1].find("40 90"), std::string::npos);
  EXPECT_EQ(host[stream].reason(), "ok");
}

TEST_F(ExecTest, ControlCAndTheEndOfInputWorkOnATerminal) {
  auto request = exec("c1", {"cat"});
  request.pty = std::make_unique<guestapi::PtyT>();
  auto stream = host.open(std::move(request));
  ASSERT_TRUE(host.send_all(stream, "hello\n"));
  ASSERT_TRUE(wait_output(stream, "hello\r\nhello\r\n"));  // echoed, then copied
  host.end(stream);
  ASSERT_TRUE(host.until([&] { return host[stream].over(); }));
  EXPECT_EQ(host[stream].message<guestapi::ExitedT>()->exit_code, 0);

  request = exec("c2", {"cat"});
  request.pty = std::make_unique<guestapi::PtyT>();
  stream = host.open(std::move(request));
  ASSERT_TRUE(host.send_all(stream, "x\n"));
  ASSERT_TRUE(wait_output(stream, "x\r\nx\r\n"));
  ASSERT_TRUE(host.send_all(stream, "\x03"));
  ASSERT_TRUE(host.until([&] { return host[stream].over(); }));
  EXPECT_EQ(host[stream].message<guestapi::ExitedT>()->signal, SIGINT);
}

TEST_F(ExecTest, ASlowReaderHoldsTheCommandBackAndLosesNothing) {
  auto stream = host.open(shell("c1", "head -c 3000000 /dev/zero; echo end >&2"));
  host[stream].take_data = false;
  // The window (of which Started took a little) fills up; the command can't have ended, since most of its
  // output has nowhere to go.
  ASSERT_TRUE(host.until([&] { return host[stream].kept_back >= wire::kWindowBytes - 1000; }));
  auto& list = host.call(guestapi::ListCommandsT{});
  ASSERT_EQ(list.messages.size(), 1U);
  EXPECT_TRUE(list.message<guestapi::CommandInfoT>()->running);
  EXPECT_LT(list.message<guestapi::CommandInfoT>()->stdout_bytes, 1'500'000U);
  host.resume(stream);
  ASSERT_TRUE(host.until([&] { return host[stream].over(); }));
  EXPECT_EQ(host[stream].data[1].size(), 3'000'000U);
  EXPECT_EQ(host[stream].data[2], "end\n");
}

TEST_F(ExecTest, ABackgroundProcessDoesNotKeepTheCallOpenAndSurvivesIt) {
  auto& call = host.call(shell("c1", "sleep 1000 & echo $!"));
  EXPECT_EQ(call.reason(), "ok");
  std::string pid = call.data[1];
  EXPECT_TRUE(alive(pid));
  EXPECT_EQ(host.call(signal("c1", SIGKILL)).reason(), "ok");
  EXPECT_TRUE(host.until([&] { return !alive(pid); }));
}

TEST_F(ExecTest, ADetachedCommandKeepsOutputAndExitCodeForAttach) {
  auto request = shell("c1", "echo one; echo two >&2; exit 5");
  request.detached = true;
  auto& started = host.call(std::move(request));
  EXPECT_EQ(started.reason(), "ok");
  EXPECT_NE(started.message<guestapi::StartedT>(), nullptr);
  EXPECT_EQ(started.message<guestapi::ExitedT>(), nullptr);
  auto& first = host.call(attach("c1"));
  EXPECT_EQ(first.data[1], "one\n");
  EXPECT_EQ(first.data[2], "two\n");
  EXPECT_EQ(first.message<guestapi::ExitedT>()->exit_code, 5);
  auto& again = host.call(attach("c1", 2));
  EXPECT_EQ(again.data[1], "e\n");
  EXPECT_EQ(again.message<guestapi::AttachedT>()->stdout_from, 2U);
  EXPECT_EQ(host.call(attach("c2")).reason(), "guest.no_such_command");
}

TEST_F(ExecTest, WithoutAWatcherTheOldestOutputIsDropped) {
  auto request = shell("c1", "head -c 1000000 /dev/zero; echo end");
  request.detached = true;
  host.call(std::move(request));
  auto& call = host.call(attach("c1"));
  ASSERT_NE(call.message<guestapi::AttachedT>(), nullptr);
  EXPECT_EQ(call.message<guestapi::AttachedT>()->stdout_from + call.data[1].size(), 1'000'004U);
  EXPECT_LE(call.data[1].size(), 1'000'004U);
  EXPECT_EQ(call.data[1].substr(call.data[1].size() - 4), "end\n");
}

TEST_F(ExecTest, ASecondAttachmentTakesOver) {
  auto request = exec("c1", {"cat"});
  request.open_stdin = true;
  auto first = host.open(std::move(request));
  ASSERT_TRUE(host.send_all(first, "a\n"));
  ASSERT_TRUE(wait_output(first, "a\n"));
  auto second = host.open(attach("c1"));
  ASSERT_TRUE(host.until([&] { return host[first].over(); }));
  EXPECT_EQ(host[first].reason(), "guest.attachment_replaced");
  ASSERT_TRUE(host.send_all(second, "b\n"));
  host.end(second);
  ASSERT_TRUE(host.until([&] { return host[second].over(); }));
  EXPECT_EQ(host[second].data[1], "a\nb\n");
}

TEST_F(ExecTest, ANewAttachmentOfTheHostKeepsCommandsRunning) {
  auto stream = host.open(
      shell("c1", "echo first; while [ ! -e /proc/$PPID/nothing ]; do sleep 0.05; echo more; done"));
  ASSERT_TRUE(wait_output(stream, "first"));
  host.attach(2);
  auto again = host.open(attach("c1"));
  ASSERT_TRUE(wait_output(again, "more\nmore\n"));
  EXPECT_EQ(host[again].data[1].substr(0, 6), "first\n");
  EXPECT_EQ(host.call(signal("c1", SIGKILL)).reason(), "ok");
  ASSERT_TRUE(host.until([&] { return host[again].over(); }));
}

TEST_F(ExecTest, AResetCallLeavesTheCommandRunning) {
  auto stream = host.open(shell("c1", "echo up; read line; echo $line; sleep 1000"));
  ASSERT_TRUE(wait_output(stream, "up"));
  host.reset(stream);
  auto& list = host.call(guestapi::ListCommandsT{});
  ASSERT_EQ(list.messages.size(), 1U);
  EXPECT_TRUE(list.message<guestapi::CommandInfoT>()->running);
  host.call(signal("c1", SIGKILL));
}

TEST_F(ExecTest, ListCommandsTellsWhatRunsAndWhatHasEnded) {
  host.call(shell("c1", "printf abc; exit 4"));
  auto stream = host.open(exec("c2", {"sleep", "1000"}));
  ASSERT_TRUE(host.until([&] { return host[stream].message<guestapi::StartedT>() != nullptr; }));
  auto& list = host.call(guestapi::ListCommandsT{});
  ASSERT_EQ(list.messages.size(), 2U);
  const auto& ended = *list.messages[0]->body.AsCommandInfo();
  const auto& running = *list.messages[1]->body.AsCommandInfo();
  EXPECT_EQ(ended.command_id, "c1");
  EXPECT_FALSE(ended.running);
  EXPECT_EQ(ended.exit->exit_code, 4);
  EXPECT_EQ(ended.stdout_bytes, 3U);
  EXPECT_EQ(running.command_id, "c2");
  EXPECT_TRUE(running.running);
  EXPECT_EQ(running.argv, (std::vector<std::string>{"sleep", "1000"}));
  EXPECT_EQ(running.exit, nullptr);
  host.call(signal("c2", SIGKILL));
}

TEST_F(ExecTest, EndedCommandsAreForgottenOldestFirst) {
  for (int i = 0; i < 260; ++i) host.call(exec("c" + std::to_string(i), {"true"}));
  EXPECT_EQ(host.call(guestapi::ListCommandsT{}).messages.size(), 256U);
  EXPECT_EQ(host.call(attach("c3")).reason(), "guest.no_such_command");
  EXPECT_EQ(host.call(attach("c4")).reason(), "ok");
}

TEST_F(ExecTest, TooManyRunningCommandsAreRefused) {
  for (int i = 0; i < 128; ++i) {
    auto request = exec("c" + std::to_string(i), {"sleep", "1000"});
    request.detached = true;
    ASSERT_EQ(host.call(std::move(request)).reason(), "ok");
  }
  EXPECT_EQ(host.call(exec("more", {"true"})).reason(), "guest.too_many_commands");
}

TEST_F(ExecTest, ManyCallsAtOnceAllGetTheirs) {
  std::vector<wire::StreamId> streams;
  for (int i = 0; i < 60; ++i)
    streams.push_back(
        host.open(shell("c" + std::to_string(i), "head -c 100000 /dev/zero; echo " + std::to_string(i))));
  for (int i = 0; i < 60; ++i) {
    auto& call = host[streams[static_cast<std::size_t>(i)]];
    ASSERT_TRUE(host.until([&] { return call.over(); }));
    std::string tail = std::to_string(i) + "\n";
    ASSERT_EQ(call.data[1].size(), 100'000 + tail.size());
    EXPECT_EQ(call.data[1].substr(100'000), tail);
  }
}

}  // namespace
}  // namespace space::guest::testing
