// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <atomic>

#include "cli/cli_fixture.h"
#include "cli/exit_code.h"

namespace space::cli {
namespace {

constexpr const char* kExec = "/v1/sessions/demo/exec";

std::string started() {
  return R"({"type":"started","command_id":"cmd1","pid":7})";
}
std::string exited(int code, int signal = 0, bool timed_out = false, bool out_of_memory = false) {
  return fmt::format(
      R"({{"type":"exited","exit_code":{},"signal":{},"timed_out":{},"out_of_memory":{},"duration_ms":1}})",
      code, signal, timed_out, out_of_memory);
}

struct Exec : CliFixture {
  std::string first;  // the first frame that the server got

  // A server that starts the command and then does what the script says.
  void script(std::function<void(Socket&)> rest) {
    server.on_socket(kExec, [this, rest](Socket& socket, const Asked&) {
      first = socket.read()->data;
      socket.text(started());
      rest(socket);
      while (socket.read()) {
      }
    });
  }
};

TEST_F(Exec, SendsWhatTheCommandLineSays) {
  script([](Socket& socket) { socket.text(exited(0)); });
  environment()["MINE"] = "own";
  EXPECT_EQ(space({"exec", "--cwd", "/tmp", "-e", "A=[1,2]", "--env", "MINE", "-u", "nobody", "--timeout",
                   "1500ms", "demo", "--", "sh", "-c", "echo --json", "--", "[a,b]", ""}),
            0)
      << err;
  EXPECT_EQ(boost::json::parse(first),
            boost::json::parse(R"({"argv":["sh","-c","echo --json","--","[a,b]",""],"cwd":"/tmp",)"
                               R"("env":{"A":"[1,2]","MINE":"own"},"user":"nobody","timeout_ms":1500})"));
  EXPECT_EQ(server.asked()[0].headers.at("authorization"), "Bearer space_testkey");
}

TEST_F(Exec, KeepsStreamsApartAndBytesUnchanged) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  script([&](Socket& socket) {
    socket.binary("\x01" + all);
    socket.binary(
        "\x02"
        "trouble");
    socket.binary("\x01" + all);
    socket.text(exited(7));
  });
  EXPECT_EQ(space({"exec", "demo", "--", "x"}), 7);
  EXPECT_EQ(out, all + all);
  EXPECT_EQ(err, "trouble");
}

TEST_F(Exec, CarriesMuchOutput) {
  script([](Socket& socket) {
    for (int i = 0; i < 640; ++i)
      socket.binary("\x01" + std::string(100'000, static_cast<char>('a' + i % 26)));
    socket.text(exited(0));
  });
  EXPECT_EQ(space({"exec", "demo", "--", "x"}), 0);
  EXPECT_EQ(out.size(), 64'000'000U);
  EXPECT_EQ(out[150'000], 'b');
}

TEST_F(Exec, PassesAPipeOnToItsEnd) {
  std::string got;
  script([&](Socket& socket) {
    for (;;) {
      auto frame = socket.read();
      if (!frame->binary) break;
      EXPECT_EQ(frame->data[0], '\0');
      got += frame->data.substr(1);
    }
    socket.text(exited(0));
  });
  std::string input(1'000'000, 'i');
  EXPECT_EQ(space_with_input({"exec", "demo", "--", "sort"}, input), 0) << err;
  EXPECT_EQ(got, input);
  EXPECT_TRUE(boost::json::parse(first).at("stdin").as_bool());
}

TEST_F(Exec, EndsWithTheCommandThoughInputIsStillOpen) {
  script([](Socket& socket) { socket.text(exited(3)); });
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  os::Fd reader(ends[0]);
  os::Fd writer(ends[1]);
  EXPECT_EQ(run_with({"exec", "-i", "demo", "--", "x"}, {reader.get(), -1, -1}), 3);
}

TEST_F(Exec, HasCodesOfItsOwnForEndsThatAreNotTheCommands) {
  struct Case {
    std::string frame;
    int code;
    const char* said;
  };
  for (const Case& c :
       {Case{exited(-1, 15), 143, ""}, Case{exited(-1, 9, true), 124, "timeout"},
        Case{exited(-1, 9, false, true), 137, "out of memory"},
        Case{R"({"type":"error",)" +
                 json_error("not_found", "guest.command_not_found", "no such program").substr(1),
             127, "no such program"},
        Case{R"({"type":"error",)" +
                 json_error("permission_denied", "guest.command_not_executable", "m").substr(1),
             126, "guest.command"},
        Case{R"({"type":"error",)" + json_error("not_found", "control.no_such_session", "m").substr(1), 125,
             "no_such_session"},
        Case{R"({"type":"exited"})", 125, "didn't say"}, Case{"garbage", 125, "cli.bad_answer"}}) {
    script([&](Socket& socket) { socket.text(c.frame); });
    EXPECT_EQ(space({"exec", "demo", "--", "x"}), c.code) << c.frame;
    EXPECT_NE(err.find(c.said), std::string::npos) << err;
  }
}

TEST_F(Exec, AStreamThatBreaksIsNeverASuccessAndSaysHowToReconnect) {
  script([](Socket& socket) { socket.cut(); });
  EXPECT_EQ(space({"exec", "demo", "--", "x"}), 125);
  EXPECT_NE(err.find("space command attach demo cmd1"), std::string::npos) << err;
  script([](Socket& socket) { socket.close(); });
  EXPECT_EQ(space({"exec", "demo", "--", "x"}), 125);
}

TEST_F(Exec, ADeclinedUpgradeIsReported) {
  server.on("GET", kExec, [](const Asked&) {
    return Answer{401, json_error("unauthenticated", "control.bad_key", "no such key"), {}};
  });
  EXPECT_EQ(space({"exec", "demo", "--", "x"}), 125);
  EXPECT_NE(err.find("no such key (control.bad_key)"), std::string::npos) << err;
  EXPECT_NE(err.find("SPACE_KEY"), std::string::npos) << err;
}

TEST_F(Exec, TheFirstInterruptIsPassedOnAndTheSecondKills) {
  std::vector<std::string> got;
  script([&](Socket& socket) {
    ::kill(::getpid(), SIGINT);
    got.push_back(socket.read()->data);
    ::kill(::getpid(), SIGINT);
    got.push_back(socket.read()->data);
    socket.text(exited(-1, 9));
  });
  EXPECT_EQ(space({"exec", "demo", "--", "x"}), 137);
  EXPECT_EQ(got,
            (std::vector<std::string>{R"({"type":"signal","signal":2})", R"({"type":"signal","signal":9})"}));
}

TEST_F(Exec, WhenNobodyReadsOurOutputTheCommandLearnsIt) {
  std::string got;
  script([&](Socket& socket) {
    socket.binary(
        "\x01"
        "data");
    got = socket.read()->data;
    socket.text(exited(-1, 13));
  });
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ::close(ends[0]);
  EXPECT_EQ(run_with({"exec", "demo", "--", "yes"}, {-1, ends[1], -1}), 141);
  ::close(ends[1]);
  EXPECT_EQ(got, R"({"type":"signal","signal":13})");
}

TEST_F(Exec, OutputThatCannotBeWrittenIsNoSuccess) {
  script([&](Socket& socket) {
    socket.binary(
        "\x01"
        "data");
    socket.read();
    socket.text(exited(0));
  });
  os::Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(run_with({"exec", "demo", "--", "x"}, {-1, full.get(), -1}), 125);
}

TEST_F(Exec, DetachPrintsTheIdAndStartsWithoutStream) {
  server.on("POST", "/v1/sessions/demo/commands",
            [](const Asked&) { return Answer{201, R"({"id":"cmd9","argv":["x"],"state":"running"})", {}}; });
  EXPECT_EQ(space({"exec", "--detach", "demo", "--", "x", "--json"}), 0) << err;
  EXPECT_EQ(out, "cmd9\n");
  EXPECT_EQ(boost::json::serialize(body(0)), R"({"argv":["x","--json"],"detached":true})");
  EXPECT_EQ(space({"exec", "--json", "-d", "demo", "--", "x"}), 0);
  EXPECT_EQ(json().at("id").as_string(), "cmd9");
}

TEST_F(Exec, AttachShowsWhatIsKeptAndTheExitCode) {
  server.on_socket("/v1/sessions/demo/commands/cmd1/attach", [](Socket& socket, const Asked&) {
    socket.text(R"({"type":"attached","pid":7,"pty":false,"stdout_from":100,"stderr_from":0})");
    socket.binary(
        "\x01"
        "tail");
    socket.text(exited(4));
    socket.read();
  });
  for (const auto& arguments : {std::vector<std::string>{"command", "attach", "demo", "cmd1"},
                                std::vector<std::string>{"exec", "--attach", "cmd1", "demo"}}) {
    EXPECT_EQ(space(arguments), 4);
    EXPECT_EQ(out, "tail");
    EXPECT_NE(err.find("first 100 bytes"), std::string::npos) << err;
  }
}

TEST_F(Exec, WrongUsesAreUsageErrors) {
  for (const auto& arguments : {std::vector<std::string>{"exec"},
                                {"exec", "demo"},
                                {"exec", "demo", "--"},
                                {"exec", "demo", "ls"},
                                {"exec", "--", "ls"},
                                {"exec", "--timeout", "soon", "demo", "--", "x"},
                                {"exec", "-e", "=x", "demo", "--", "x"},
                                {"exec", "demo", "--", "\xff"},
                                {"exec", "--attach", "c", "demo", "--", "x"},
                                {"exec", "-d", "-i", "demo", "--", "x"}}) {
    EXPECT_EQ(space(arguments), 2) << err;
  }
  EXPECT_TRUE(server.asked().empty());
}

// A terminal for the command line to run in.
struct Terminal : Exec {
  os::Fd master;
  os::Fd slave;
  void SetUp() override {
    Exec::SetUp();
    int fds[2];
    winsize size{31, 97, 0, 0};
    ASSERT_EQ(::openpty(&fds[0], &fds[1], nullptr, nullptr, &size), 0);
    master = os::Fd(fds[0]);
    slave = os::Fd(fds[1]);
  }
  tcflag_t local_flags() const {
    termios mode{};
    ::tcgetattr(slave.get(), &mode);
    return mode.c_lflag;
  }
  int in_terminal(const std::vector<std::string>& arguments) {
    return run_with(arguments, {slave.get(), slave.get(), -1});
  }
};

TEST_F(Terminal, AShellGetsThePtyTheKeysAndEveryNewSize) {
  std::vector<std::string> frames;
  std::atomic<tcflag_t> during = 0;
  script([&](Socket& socket) {
    frames.push_back(socket.read()->data);  // the size, once connected
    during = local_flags();
    winsize size{40, 120, 0, 0};
    ::ioctl(master.get(), TIOCSWINSZ, &size);
    ::kill(::getpid(), SIGWINCH);
    frames.push_back(socket.read()->data);
    os::write_all(master.get(), as_bytes("\x03")).value();
    frames.push_back(socket.read()->data);
    socket.text(exited(9));
  });
  tcflag_t before = local_flags();
  EXPECT_EQ(in_terminal({"shell", "demo"}), 9) << err;
  auto pty = boost::json::parse(first).at("pty");
  EXPECT_EQ(boost::json::serialize(pty), R"({"rows":31,"cols":97,"term":"vt220"})");
  EXPECT_EQ(frames[0], R"({"type":"resize","rows":31,"cols":97})");
  EXPECT_EQ(frames[1], R"({"type":"resize","rows":40,"cols":120})");
  EXPECT_EQ(frames[2], std::string("\0\x03", 2));
  EXPECT_EQ(during & (ICANON | ECHO | ISIG), 0U);
  EXPECT_EQ(local_flags(), before);
}

TEST_F(Terminal, TheEscapeLeavesAndRestoresTheTerminal) {
  tcflag_t before = local_flags();
  script([&](Socket& socket) {
    socket.read();
    os::write_all(master.get(), as_bytes("~.")).value();
  });
  EXPECT_EQ(in_terminal({"shell", "demo"}), 0) << err;
  EXPECT_NE(err.find("space command attach demo cmd1"), std::string::npos) << err;
  EXPECT_EQ(local_flags(), before);
}

TEST_F(Terminal, ABrokenStreamRestoresTheTerminal) {
  tcflag_t before = local_flags();
  script([&](Socket& socket) {
    socket.read();
    socket.cut();
  });
  EXPECT_EQ(in_terminal({"exec", "-t", "demo", "--", "top"}), 125);
  EXPECT_EQ(local_flags(), before);
}

TEST_F(Terminal, WithoutOptionsATerminalIsNotReadFrom) {
  script([&](Socket& socket) { socket.text(exited(0)); });
  EXPECT_EQ(in_terminal({"exec", "demo", "--", "x"}), 0);
  EXPECT_FALSE(boost::json::parse(first).as_object().contains("stdin"));
}

}  // namespace
}  // namespace space::cli
