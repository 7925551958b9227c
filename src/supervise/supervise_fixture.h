// SPDX-License-Identifier: Apache-2.0
#pragma once
// For tests: a directory with stand-ins for the service processes, and `space up` running in a process of its
// own.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "lib/os/file.h"
#include "supervise/children_file.h"
#include "supervise/main.h"

namespace space::supervise {

// Waits for a condition; false after a time that only a broken program needs.
inline bool eventually(const std::function<bool()>& condition, int limit_ms = 30'000) {
  for (int waited = 0; !condition(); waited += 5) {
    if (waited > limit_ms) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

struct SuperviseFixture : ::testing::Test {
  std::string root;
  std::string bin;
  std::string data;

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    char pattern[] = "/tmp/space-supervise-XXXXXX";
    root = ::mkdtemp(pattern);
    ::chmod(root.c_str(), 0755);
    bin = root + "/bin";
    data = root + "/data";
    os::make_directory(bin, 0755).value();
    ::chmod(bin.c_str(), 0777);  // stand-ins of other users leave marks in it
    std::string program = *os::read_file(STAND_IN, 64u << 20);
    for (const char* name : {"space-control", "space-node", "space-link"}) {
      os::write_file_atomic(bin + "/" + name, program, os::Durability::kBuffered, 0755).value();
      ::chmod((bin + "/" + name).c_str(), 0755);
    }
    os::write_file_atomic(bin + "/order", "", os::Durability::kBuffered).value();
    ::chmod((bin + "/order").c_str(), 0666);
  }
  void TearDown() override {
    if (!root.empty()) os::remove_tree(root).ignore("test clean-up");
  }

  void behave(const std::string& name, const std::string& words) {
    std::string path = bin + "/" + name + ".behave";
    os::write_file_atomic(path, words, os::Durability::kBuffered).value();
    ::chmod(path.c_str(), 0644);
  }
  std::string read(const std::string& path) const {
    auto text = os::read_file(path);
    return text.ok() ? *text : "";
  }
  std::string log(const std::string& name) const { return read(data + "/log/" + name + ".log"); }
  static std::size_t count(const std::string& text, const std::string& what) {
    std::size_t found = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
  }
  // The value of `field` in the last line that the stand-in wrote at a start.
  std::string noted(const std::string& name, const std::string& field) const {
    std::string text = log(name);
    auto at = text.rfind("\"" + field + "\":\"");
    if (at == std::string::npos) return "";
    at += field.size() + 4;
    return text.substr(at, text.find('"', at) - at);
  }
};

// `space up` in a process of its own. Resource type.
class Up {
 public:
  Up(const SuperviseFixture& fixture, std::vector<std::string> extra = {}, uid_t user = 0)
      : out_(fixture.root + "/out"), err_(fixture.root + "/err") {
    std::vector<std::string> arguments = {"--data", fixture.data, "--bindir", fixture.bin};
    if (extra.empty()) extra = {"--listen", "127.0.0.1:0"};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    ::unlink(out_.c_str());
    ::unlink(err_.c_str());
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::close(1);
    ::close(2);
    static_cast<void>(os::open_file(out_, O_WRONLY | O_CREAT, 0644).value().release());
    static_cast<void>(os::open_file(err_, O_WRONLY | O_CREAT, 0644).value().release());
    if (user != 0 && ::setresuid(user, user, user) != 0) ::_exit(99);
    ::_exit(run(arguments));
  }
  ~Up() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Up(const Up&) = delete;
  Up& operator=(const Up&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::string out() const { return text(out_); }
  [[nodiscard]] std::string err() const { return text(err_); }
  bool ready() {
    return eventually([&] { return out().find('\n') != std::string::npos; });
  }
  void kill(int signal) const { ::kill(pid_, signal); }
  // Exit code, or 128 and the signal's number.
  int wait() {
    int status = 0;
    eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; });
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  static std::string text(const std::string& path) {
    auto content = os::read_file(path);
    return content.ok() ? *content : "";
  }
  std::string out_;
  std::string err_;
  pid_t pid_ = 0;
};

}  // namespace space::supervise
