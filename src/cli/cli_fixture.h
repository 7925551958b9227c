// SPDX-License-Identifier: Apache-2.0
#pragma once
// For tests: runs the whole command line in-process against a scripted server.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <csignal>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cli/main.h"
#include "lib/os/file.h"
#include "tests/testkit/http/scripted_server.h"

namespace space::cli {

struct CliFixture : ::testing::Test {
  using Answer = testkit::Answer;
  using Asked = testkit::Asked;
  using Socket = testkit::Socket;

  testkit::ScriptedServer server;
  std::string out;
  std::string err;
  std::string dir;
  std::string bin;

  static std::map<std::string, std::string>& environment() {
    static std::map<std::string, std::string> variables;
    return variables;
  }

  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    char pattern[] = "/tmp/space-cli-XXXXXX";
    dir = ::mkdtemp(pattern);
    environment() = {
        {"SPACE_URL", server.url()}, {"SPACE_KEY", "space_testkey"}, {"HOME", dir}, {"TERM", "vt220"}};
  }
  void TearDown() override { os::remove_tree(dir).ignore("test clean-up"); }

  World world(Stdio stdio) const {
    World world;
    world.stdio = stdio;
    world.bin_directory = bin;
    world.environment = [](const char* name) -> const char* {
      auto found = environment().find(name);
      return found == environment().end() ? nullptr : found->second.c_str();
    };
    return world;
  }

  // Runs with the given descriptors in place of those that stay below 0.
  int run_with(const std::vector<std::string>& arguments, Stdio stdio) {
    os::Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    os::Fd output(::memfd_create("out", MFD_CLOEXEC));
    os::Fd errors(::memfd_create("err", MFD_CLOEXEC));
    if (stdio.in < 0) stdio.in = null.get();
    if (stdio.out < 0) stdio.out = output.get();
    if (stdio.err < 0) stdio.err = errors.get();
    int code = run(arguments, world(stdio));
    out = *os::read_file("/proc/self/fd/" + std::to_string(output.get()), 256u << 20);
    err = *os::read_file("/proc/self/fd/" + std::to_string(errors.get()), 256u << 20);
    return code;
  }
  int space(const std::vector<std::string>& arguments) { return run_with(arguments, {-1, -1, -1}); }
  int space_with_input(const std::vector<std::string>& arguments, const std::string& input) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    os::Fd reader(ends[0]);
    std::thread writer([&input, fd = ends[1]] {
      os::write_all(fd, as_bytes(input)).ignore("the reader may leave early");
      ::close(fd);
    });
    int code = run_with(arguments, {reader.get(), -1, -1});
    reader.reset();
    writer.join();
    return code;
  }

  boost::json::value json() const { return boost::json::parse(out); }
  boost::json::value body(std::size_t request) const {
    return boost::json::parse(server.asked().at(request).body);
  }
};

inline std::string json_error(const std::string& code, const std::string& reason,
                              const std::string& message) {
  return R"({"error":{"code":")" + code + R"(","reason":")" + reason + R"(","message":")" + message +
         R"("}})";
}

}  // namespace space::cli
