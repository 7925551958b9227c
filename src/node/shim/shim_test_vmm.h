// SPDX-License-Identifier: Apache-2.0
#pragma once
// Test support: shim_test_host (a stand-in for a VMM) with or without the preloaded library, and a temporary
// folder.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "lib/os/fd.h"
#include "lib/os/file.h"

namespace space::node::shim {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    char name[] = "/tmp/space-shim-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TemporaryFolder() { os::remove_tree(path_).ignore("test"); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A file of `pages` pages, each filled with `fill`; 0 makes a hole.
inline std::string make_file(const std::string& path, std::uint64_t pages, char fill) {
  os::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  EXPECT_EQ(0, ::ftruncate(fd.get(), static_cast<off_t>(pages * 4096)));
  std::string page(4096, fill);
  for (std::uint64_t i = 0; fill != 0 && i < pages; ++i) {
    EXPECT_EQ(4096, ::pwrite(fd.get(), page.data(), page.size(), static_cast<off_t>(i * 4096)));
  }
  return path;
}

enum class Preload { kNo, kYes };

class TestVmm {
 public:
  TestVmm(const std::string& placeholder, std::uint64_t pages, const std::string& socket,
          Preload preload = Preload::kYes) {
    int down[2];
    int up[2];
    EXPECT_EQ(0, ::pipe2(down, O_CLOEXEC));
    EXPECT_EQ(0, ::pipe2(up, O_CLOEXEC));
    struct stat info{};
    EXPECT_EQ(0, ::stat(placeholder.c_str(), &info));
    std::vector<std::string> environment = {
        "SPACE_SHIM_SOCKET=" + socket,
        "SPACE_SHIM_RAM=" + std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino)};
    if (preload == Preload::kYes) environment.push_back("LD_PRELOAD=" SHIM_LIBRARY);
    std::vector<std::string> arguments = {SHIM_TEST_HOST, placeholder, std::to_string(pages * 4096)};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, down[0], 0);
    posix_spawn_file_actions_adddup2(&actions, up[1], 1);
    EXPECT_EQ(0, ::posix_spawn(&pid_, SHIM_TEST_HOST, &actions, nullptr, pointers(arguments).data(),
                               pointers(environment).data()));
    posix_spawn_file_actions_destroy(&actions);
    ::close(down[0]);
    ::close(up[1]);
    to_ = ::fdopen(down[1], "w");
    from_ = ::fdopen(up[0], "r");
    std::string ready = line();
    EXPECT_EQ(1, std::sscanf(ready.c_str(), "ready %lx", &address_)) << ready;
  }
  ~TestVmm() {
    if (pid_ > 0 && !exited_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    std::fclose(to_);
    std::fclose(from_);
  }
  TestVmm(const TestVmm&) = delete;
  TestVmm& operator=(const TestVmm&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::uint64_t address() const { return address_; }
  void tell(const std::string& command) {
    std::fprintf(to_, "%s\n", command.c_str());
    std::fflush(to_);
  }
  std::string line() {
    char text[256] = {};
    if (std::fgets(text, sizeof text, from_) == nullptr) return "";
    std::string out = text;
    if (!out.empty() && out.back() == '\n') out.pop_back();
    return out;
  }
  std::string ask(const std::string& command) {
    tell(command);
    return line();
  }
  // Waits for the end; the wait status.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    exited_ = true;
    return status;
  }

 private:
  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (auto& text : texts) out.push_back(text.data());
    out.push_back(nullptr);
    return out;
  }
  pid_t pid_ = -1;
  bool exited_ = false;
  FILE* to_ = nullptr;
  FILE* from_ = nullptr;
  unsigned long address_ = 0;
};

}  // namespace space::node::shim
