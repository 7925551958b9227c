// SPDX-License-Identifier: Apache-2.0
// space-fake-platform DIR: a scripted node and link on DIR/node.sock and DIR/link-control.sock, told what to
// do by lines on standard input, each answered by one line:
//
//   hold · release · fail_create CODE REASON · fail_destroys CODE REASON · heal
//   end SANDBOX REASON · stray SANDBOX · sandboxes · counts · silent 0|1 · forgetful 0|1
//   stop_node · start_node · stop_link · start_link · signals SANDBOX · recovered_adopted ID · quit
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdio>
#include <istream>
#include <sstream>

#include "tests/testkit/platform/fake_link.h"
#include "tests/testkit/platform/fake_node.h"

namespace {

using namespace space;

struct Platform {
  async::Loop loop;
  testkit::FakeSandboxes sandboxes;
  testkit::FakeNode node;
  testkit::FakeLink link;
  explicit Platform(const std::string& dir)
      : node(loop.get_executor(), dir + "/node.sock", sandboxes),
        link(loop.get_executor(), dir + "/link-control.sock", sandboxes) {}
};

async::Task<std::string> obey(Platform& platform, std::string line) {
  std::istringstream words(line);
  std::string verb, first, second;
  words >> verb >> first >> second;
  auto& node = platform.node;
  if (verb == "hold")
    node.hold_creates = true;
  else if (verb == "release")
    node.release();
  else if (verb == "fail_create")
    node.fail_next_create = make_error(code_from_string(first), second, "as the test wants it");
  else if (verb == "fail_destroys")
    node.fail_destroys = make_error(code_from_string(first), second, "as the test wants it");
  else if (verb == "heal")
    node.fail_destroys.reset();
  else if (verb == "end")
    node.end_sandbox(first, second, "last words \xff\n");
  else if (verb == "stray")
    node.add_stray(first);
  else if (verb == "silent")
    platform.link.silent = first == "1";
  else if (verb == "forgetful")
    platform.link.knows_nobody = first == "1";
  else if (verb == "stop_node")
    co_await node.stop();
  else if (verb == "start_node")
    node.start();
  else if (verb == "stop_link")
    co_await platform.link.stop();
  else if (verb == "start_link")
    platform.link.start();
  else if (verb == "recovered_adopted")
    node.recovered_adopted.push_back(first);
  else if (verb == "counts")
    co_return std::to_string(node.creates) + " " + std::to_string(node.destroys);
  else if (verb == "sandboxes") {
    std::string all;
    for (const auto& [id, sandbox] : platform.sandboxes) all += id + " ";
    co_return all;
  } else if (verb == "signals") {
    std::string all;
    if (auto found = platform.sandboxes.find(first); found != platform.sandboxes.end()) {
      for (const auto& signal : found->second->received_signals) all += signal + " ";
    }
    co_return all;
  } else
    co_return "unknown";
  co_return "ok";
}

async::Task<void> listen(Platform& platform) {
  boost::asio::posix::stream_descriptor input(platform.loop, ::dup(STDIN_FILENO));
  boost::asio::streambuf buffer;
  platform.node.start();
  platform.link.start();
  std::printf("ready\n");
  std::fflush(stdout);
  for (;;) {
    boost::system::error_code error;
    co_await boost::asio::async_read_until(input, buffer, '\n',
                                           boost::asio::redirect_error(boost::asio::use_awaitable, error));
    if (error) break;
    std::istream stream(&buffer);
    std::string line;
    std::getline(stream, line);
    if (line == "quit") break;
    std::string answer = co_await obey(platform, line);
    std::printf("%s\n", answer.c_str());
    std::fflush(stdout);
  }
  platform.loop.stop();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  Platform platform(argv[1]);
  boost::asio::co_spawn(platform.loop, listen(platform), [](std::exception_ptr failure) {
    if (failure) std::rethrow_exception(failure);
  });
  platform.loop.run();
  // The graph is torn down with coroutines still suspended in it; nothing here is worth an orderly end.
  std::fflush(stdout);
  ::_exit(0);
}
