// SPDX-License-Identifier: Apache-2.0
// What each command asks of the server and shows of its answer.
#include <sys/stat.h>

#include <atomic>

#include "cli/cli_fixture.h"

namespace space::cli {
namespace {

constexpr const char* kSession =
    R"({"id":"s1","name":"demo","tenant":"t","state":"running","status":null,"template":"base",)"
    R"("resources":{"vcpus":1,"memory_bytes":536870912,"disk_bytes":8589934592},"ttl_seconds":3600,)"
    R"("created_at":"2026-01-01T00:00:00.000Z","started_at":null,"expires_at":"2199-01-01T00:00:00.000Z","ended_at":null,"generation":1,)"
    R"("sandbox":{"id":"b1","node":"n1","backend":"qemu","acceleration":"tcg","started_at":"x","adopted":true},"labels":{"a":"b"},"version":3})";

struct Commands : CliFixture {};

TEST_F(Commands, CreateAsksForWhatWasSaidAndStatesWhatItGot) {
  server.on("POST", "/v1/sessions", [](const Asked&) { return Answer{201, kSession, {}}; });
  EXPECT_EQ(space({"session", "create", "--name", "demo", "--template", "base", "--vcpus", "2", "--memory",
                   "768MiB", "--disk", "10GiB", "--ttl", "2h", "--label", "k=v,w"}),
            0)
      << err;
  EXPECT_EQ(
      body(0),
      boost::json::parse(
          R"({"name":"demo","template":"base","vcpus":2,"memory_bytes":805306368,"disk_bytes":10737418240,)"
          R"("ttl_seconds":7200,"labels":{"k":"v,w"}})"));
  EXPECT_FALSE(server.asked()[0].headers.at("idempotency-key").empty());
  for (const char* stated : {"s1", "demo", "1 vCPU, 512MiB memory, 8GiB disk",
                             "2199-01-01T00:00:00.000Z (in ", "adopted", "a=b"}) {
    EXPECT_NE(out.find(stated), std::string::npos) << stated << "\n" << out;
  }
  EXPECT_EQ(space({"session", "create", "--json"}), 0);
  EXPECT_EQ(server.asked()[1].body, "{}");
  EXPECT_EQ(json(), boost::json::parse(kSession));
}

TEST_F(Commands, WrongValuesAreRefusedWithoutAskingAnybody) {
  for (const auto& arguments : {std::vector<std::string>{"session", "create", "--memory", "much"},
                                {"session", "create", "--vcpus", "x"},
                                {"session", "create", "--ttl", "1500ms"},
                                {"session", "create", "--label", "x"},
                                {"session", "create", "extra"},
                                {"session", "show"},
                                {"session"},
                                {},
                                {"nonsense"},
                                {"session", "ls", "--nonsense"},
                                {"cp", "a", "b"},
                                {"cp", "s:/a", "t:/b"},
                                {"command", "signal", "s", "c", "NOPE"},
                                {"logs", "-f", "--json", "s"}}) {
    EXPECT_EQ(space(arguments), 2) << err;
    EXPECT_TRUE(err.starts_with("space: ")) << err;
  }
  EXPECT_TRUE(server.asked().empty());
}

TEST_F(Commands, ErrorsNameFieldSentenceAndReason) {
  server.on("POST", "/v1/sessions", [](const Asked&) {
    return Answer{
        400,
        R"({"error":{"code":"invalid_argument","reason":"control.bad_name","message":"no\u001b[31m","details":{"field":"name"}}})",
        {}};
  });
  EXPECT_EQ(space({"session", "create", "--name", "a/b"}), 1);
  EXPECT_TRUE(err.starts_with("space: name: no\\x1b[31m (control.bad_name)")) << err;
  EXPECT_EQ(out, "");
}

TEST_F(Commands, AServerThatIsNotThereOrNotOursIsSaid) {
  server.on("GET", "/v1/node", [](const Asked&) { return Answer{502, "<html>", {}}; });
  EXPECT_EQ(space({"node", "ls"}), 1);
  EXPECT_NE(err.find("is it a SPACE server?"), std::string::npos) << err;
  environment()["SPACE_URL"] = "http://127.0.0.1:1";
  EXPECT_EQ(space({"node", "ls"}), 1);
  EXPECT_NE(err.find("space up --data DIR --listen HOST:PORT"), std::string::npos) << err;
}

TEST_F(Commands, AChangeWhoseConnectionBrokeIsRepeatedWithTheSameKey) {
  std::atomic<int> tries = 0;
  server.on("POST", "/v1/sessions", [&](const Asked&) {
    Answer answer{201, kSession, {}};
    if (++tries == 1) answer.cut_after = 10;
    return answer;
  });
  EXPECT_EQ(space({"session", "create"}), 0) << err;
  auto asked = server.asked();
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_EQ(asked[0].headers.at("idempotency-key"), asked[1].headers.at("idempotency-key"));
}

TEST_F(Commands, ListsFollowPagesAndAreArrays) {
  server.on("GET", "/v1/sessions", [](const Asked& asked) {
    bool second = asked.query.find("page_token=t%201") != std::string::npos;
    return Answer{200,
                  second ? R"({"items":[{"id":"s2"}],"next_page_token":null})"
                         : R"({"items":[)" + std::string(kSession) + R"(],"next_page_token":"t 1"})",
                  {}};
  });
  EXPECT_EQ(space({"session", "ls", "--json"}), 0) << err;
  EXPECT_EQ(json().as_array().size(), 2U);
  EXPECT_TRUE(server.asked()[0].query.starts_with("state=creating%2Crunning")) << server.asked()[0].query;
  EXPECT_EQ(space({"--json", "session", "ls", "--all"}), 0);
  EXPECT_EQ(server.asked()[2].query, "page_size=1000");
  EXPECT_EQ(space({"session", "ls", "--state", "killed", "--name", "x"}), 0);
  EXPECT_EQ(server.asked()[4].query, "state=killed&name=x&page_size=1000");
  EXPECT_NE(out.find("NAME"), std::string::npos);
}

TEST_F(Commands, KillTakesSeveralAndFailsWhenOneFails) {
  server.on("DELETE", "/v1/sessions/a",
            [](const Asked&) { return Answer{200, R"({"id":"a","state":"killed"})", {}}; });
  server.on("DELETE", "/v1/sessions/b",
            [](const Asked&) { return Answer{200, R"({"id":"b","state":"killed"})", {}}; });
  EXPECT_EQ(space({"session", "kill", "a", "--json"}), 0);
  EXPECT_EQ(json().at("id").as_string(), "a");
  EXPECT_EQ(space({"session", "kill", "a", "b", "--json"}), 0);
  EXPECT_EQ(json().as_array().size(), 2U);
  EXPECT_EQ(space({"session", "kill", "a", "nope", "b"}), 1);
  EXPECT_EQ(out, "a  killed\nb  killed\n");
}

TEST_F(Commands, NamesAreOnePathSegmentWhateverIsInThem) {
  EXPECT_EQ(space({"session", "show", "../keys?x"}), 1);
  EXPECT_EQ(server.asked()[0].path, "/v1/sessions/..%2Fkeys%3Fx");
}

TEST_F(Commands, ExtendCountsInSeconds) {
  server.on("PATCH", "/v1/sessions/demo", [](const Asked&) { return Answer{200, kSession, {}}; });
  EXPECT_EQ(space({"session", "extend", "demo", "90m"}), 0) << err;
  EXPECT_EQ(server.asked()[0].body, R"({"ttl_seconds":5400})");
}

TEST_F(Commands, FileNamesOfTheGuestCannotSteerTheTerminal) {
  server.on("GET", "/v1/sessions/demo/files/list", [](const Asked&) {
    return Answer{
        200,
        R"({"items":[{"path":"a\u001b]0;x\u0007","kind":"symlink","size":3,"mode":"0644","uid":0,"gid":0,"modified_at":"m","target":"\u009b1m"}]})",
        {}};
  });
  EXPECT_EQ(space({"fs", "ls", "demo", "/x y"}), 0) << err;
  EXPECT_NE(out.find("a\\x1b]0;x\\x07 -> \\u{9b}1m"), std::string::npos) << out;
  EXPECT_TRUE(server.asked()[0].query.starts_with("path=%2Fx%20y"));
  EXPECT_EQ(space({"fs", "ls", "--json", "demo", "/x"}), 0);
  EXPECT_EQ(json().at(0).at("id"), json().at(0).at("path"));
}

TEST_F(Commands, FsAsksForEachOperation) {
  server.on("GET", "/v1/sessions/demo/files",
            [](const Asked&) { return Answer{200, std::string("a\0b", 3), {}}; });
  server.on("PUT", "/v1/sessions/demo/files", [](const Asked&) { return Answer{201, "{}", {}}; });
  server.on("DELETE", "/v1/sessions/demo/files", [](const Asked&) { return Answer{204, "", {}}; });
  server.on("POST", "/v1/sessions/demo/files/mkdir", [](const Asked&) { return Answer{204, "", {}}; });
  server.on("POST", "/v1/sessions/demo/files/move", [](const Asked&) { return Answer{204, "", {}}; });
  EXPECT_EQ(space({"fs", "cat", "demo", "/f"}), 0) << err;
  EXPECT_EQ(out, std::string("a\0b", 3));
  EXPECT_EQ(space_with_input({"fs", "put", "demo", "/f"}, std::string(200'000, 'p')), 0) << err;
  EXPECT_EQ(server.asked()[1].body, std::string(200'000, 'p'));
  EXPECT_EQ(space({"fs", "rm", "-r", "demo", "/f"}), 0) << err;
  EXPECT_EQ(server.asked()[2].query, "path=%2Ff&recursive=true");
  EXPECT_EQ(space({"fs", "mkdir", "-p", "--mode", "0700", "demo", "/d"}), 0) << err;
  EXPECT_EQ(body(3), boost::json::parse(R"({"path":"/d","mode":"0700","parents":true})"));
  EXPECT_EQ(space({"fs", "mv", "demo", "/a", "/b", "--json"}), 0) << err;
  EXPECT_EQ(body(4), boost::json::parse(R"({"from":"/a","to":"/b","overwrite":false})"));
  EXPECT_EQ(out, "{\"id\":\"/b\"}\n");
}

TEST_F(Commands, WatchPrintsEventsUntilTheStreamEndsWhichIsAnError) {
  server.on_socket("/v1/sessions/demo/files/watch", [](Socket& socket, const Asked&) {
    socket.text(R"({"type":"watching"})");
    socket.text(R"({"type":"event","kind":"created","path":"n\u001b","directory":false})");
    socket.close();
  });
  EXPECT_EQ(space({"fs", "watch", "demo", "/w"}), 1);
  EXPECT_EQ(out, "created  n\\x1b\n");
  EXPECT_EQ(space({"fs", "watch", "--json", "demo", "/w"}), 1);
  EXPECT_EQ(json().at("kind").as_string(), "created");
}

TEST_F(Commands, LogsAreHarmlessUnlessRaw) {
  const std::string console = "boot\r\n\x1b[2J\xc3\xbc end\xff\r\n";
  server.on("GET", "/v1/sessions/demo/logs", [&](const Asked&) { return Answer{200, console, {}, true}; });
  EXPECT_EQ(space({"logs", "demo"}), 0) << err;
  EXPECT_EQ(out, "boot\n\\x1b[2J\xc3\xbc end\\xff\n");
  EXPECT_EQ(space({"logs", "--raw", "demo"}), 0);
  EXPECT_EQ(out, console);
  EXPECT_EQ(space({"logs", "--json", "demo"}), 0);
  EXPECT_EQ(json().at("id").as_string(), "demo");
}

TEST_F(Commands, TemplateBuildFollowsItsOperation) {
  std::atomic<int> polls = 0;
  server.on("POST", "/v1/templates",
            [](const Asked&) { return Answer{202, R"({"id":"op1","state":"pending"})", {}}; });
  server.on("GET", "/v1/operations/op1", [&](const Asked&) {
    return Answer{
        200,
        ++polls < 2
            ? R"({"id":"op1","state":"running","steps":[{"at":"x","step":"unpack","detail":"1"}]})"
            : R"({"id":"op1","state":"succeeded","steps":[{"at":"x","step":"unpack","detail":"1"},{"at":"x","step":"seal","detail":""}]})",
        {}};
  });
  server.on("GET", "/v1/templates/dev",
            [](const Asked&) { return Answer{200, R"({"id":"dev","name":"dev","state":"ready"})", {}}; });
  EXPECT_EQ(space({"template", "build", "dev", "--json"}), 0) << err;
  EXPECT_EQ(json().at("state").as_string(), "ready");
  EXPECT_EQ(err, "space: unpack: 1\nspace: seal\n");
  server.on("GET", "/v1/operations/op1", [](const Asked&) {
    return Answer{
        200,
        R"({"id":"op1","state":"failed","error":{"code":"internal","reason":"node.build_failed","message":"it broke"},"steps":[]})",
        {}};
  });
  EXPECT_EQ(space({"template", "build", "dev"}), 1);
  EXPECT_NE(err.find("it broke (node.build_failed)"), std::string::npos) << err;
}

TEST_F(Commands, NodesOperationsAndCommandsAreShown) {
  server.on("GET", "/v1/node", [](const Asked&) {
    return Answer{200, R"({"id":"n1","backend":"qemu","acceleration":"tcg","connected":true})", {}};
  });
  server.on("GET", "/v1/operations", [](const Asked&) {
    return Answer{200, R"({"items":[{"id":"op1","kind":"create_session"}],"next_page_token":null})", {}};
  });
  server.on("GET", "/v1/sessions/demo/commands", [](const Asked&) {
    return Answer{
        200,
        R"({"items":[{"id":"c1","argv":["sh","-c","\u001b"],"pid":3,"state":"exited","exit":{"exit_code":-1,"signal":9,"timed_out":true}}]})",
        {}};
  });
  server.on("POST", "/v1/sessions/demo/commands/c1/signal", [](const Asked&) { return Answer{204, "", {}}; });
  EXPECT_EQ(space({"node", "ls", "--json"}), 0);
  EXPECT_EQ(json().at(0).at("id").as_string(), "n1");
  EXPECT_EQ(space({"operation", "ls"}), 0);
  EXPECT_NE(out.find("create_session"), std::string::npos);
  EXPECT_EQ(space({"command", "ls", "demo"}), 0);
  EXPECT_NE(out.find("signal 9 (timeout)"), std::string::npos) << out;
  EXPECT_NE(out.find("sh -c \\x1b"), std::string::npos) << out;
  EXPECT_EQ(space({"command", "signal", "demo", "c1", "KILL"}), 0) << err;
  EXPECT_EQ(server.asked().back().body, R"({"signal":9})");
}

TEST_F(Commands, DoctorShowsTheReportOfTheNodesProgram) {
  bin = dir;
  os::write_file_atomic(
      dir + "/space-node",
      "#!/bin/sh\n[ \"$1 $2\" = 'doctor --json' ] || exit 9\n"
      "echo "
      "'{\"checks\":[{\"id\":\"root\",\"status\":\"ok\",\"found\":\"yes\",\"means\":\"m\",\"mend\":\"\"},"
      "{\"id\":\"kvm\",\"status\":\"warn\",\"found\":\"crawls\",\"means\":\"slow\",\"mend\":\"other "
      "host\"}],\"ok\":true}'\n",
      os::Durability::kBuffered, 0755)
      .value();
  EXPECT_EQ(space({"doctor"}), 0) << err;
  EXPECT_NE(out.find("kvm    warn    crawls"), std::string::npos) << out;
  EXPECT_NE(out.find("to mend: other host"), std::string::npos) << out;
  EXPECT_EQ(space({"doctor", "--json"}), 0);
  EXPECT_EQ(json().at("checks").as_array().size(), 2U);
  bin = dir + "/nowhere";
  EXPECT_EQ(space({"doctor"}), 1);
  EXPECT_NE(err.find("space-node"), std::string::npos) << err;
}

TEST_F(Commands, HelpNamesEveryCommand) {
  EXPECT_EQ(space({"--help"}), 0);
  for (const char* name : {"up", "session", "exec", "shell", "command", "cp", "fs", "port-forward", "logs",
                           "template", "node", "operation", "doctor", "version"}) {
    EXPECT_NE(out.find(std::string("\n  ") + name + " "), std::string::npos) << name;
  }
  EXPECT_EQ(space({"version", "--json"}), 0);
  EXPECT_EQ(json().at("id").as_string(), "space");
}

}  // namespace
}  // namespace space::cli
