// SPDX-License-Identifier: Apache-2.0
// Plays any of the service processes in tests of the supervisor. Which one it is follows from its name; how
// it behaves, from words in the file NAME.behave beside it:
//
//   die          ends with exit code 3 at once
//   die-once     the same, but only while the file NAME.died isn't there
//   ignore-term  goes on after SIGTERM
//   orphan       leaves a grandchild behind that sleeps for ever
//
// At its start it writes a line with what it was given to standard error; at SIGTERM its name to the file
// `order`. As space-control it answers HTTP on descriptor 3.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

volatile std::sig_atomic_t terminated = 0;

std::string read_file(const std::string& path) {
  std::string text;
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char buffer[4096];
  for (ssize_t got; fd >= 0 && (got = ::read(fd, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  if (fd >= 0) ::close(fd);
  return text;
}

std::string status_line(const std::string& name) {
  std::string all = read_file("/proc/self/status");
  auto at = all.find("\n" + name + ":\t");
  if (at == std::string::npos) return "";
  at += name.size() + 3;
  return all.substr(at, all.find('\n', at) - at);
}

std::string open_descriptors() {
  std::string out;
  DIR* dir = ::opendir("/proc/self/fd");
  for (dirent* entry; dir != nullptr && (entry = ::readdir(dir)) != nullptr;) {
    if (entry->d_name[0] == '.' || std::atoi(entry->d_name) == ::dirfd(dir)) continue;
    out += (out.empty() ? "" : ",") + std::string(entry->d_name);
  }
  if (dir != nullptr) ::closedir(dir);
  return out;
}

void say(const std::string& level, const std::string& event) {
  int death = 0;
  ::prctl(PR_GET_PDEATHSIG, &death);
  std::string line =
      "{\"level\":\"" + level + "\",\"event\":\"" + event + "\",\"pid\":\"" + std::to_string(::getpid()) +
      "\",\"uid\":\"" + std::to_string(::getuid()) + "\",\"groups\":\"" + status_line("Groups") +
      "\",\"effective\":\"" + status_line("CapEff") + "\",\"bounding\":\"" + status_line("CapBnd") +
      "\",\"descriptors\":\"" + open_descriptors() + "\",\"death\":\"" + std::to_string(death) + "\"}\n";
  [[maybe_unused]] ssize_t ignored = ::write(2, line.data(), line.size());
}

void answer(int client) {
  char buffer[4096];
  ssize_t got = ::read(client, buffer, sizeof buffer);
  std::string request(buffer, got > 0 ? static_cast<std::size_t>(got) : 0);
  std::string body = request.starts_with("GET /v1/health")
                         ? R"({"status":"ok","node":true,"link":true,"version":"0"})"
                         : R"({"id":"n","recovery":{"at":"x","adopted":["aaa"],"destroyed":["bbb"]}})";
  std::string response =
      "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
      body;
  [[maybe_unused]] ssize_t ignored = ::write(client, response.data(), response.size());
  ::close(client);
}

}  // namespace

int main(int, char** argv) {
  std::string path = argv[0];
  std::string directory = path.substr(0, path.rfind('/'));
  std::string name = path.substr(path.rfind('/') + 1);
  std::string behave = read_file(path + ".behave");
  auto does = [&](const char* word) { return behave.find(word) != std::string::npos; };
  say("info", "started");
  if (does("die-once")) {
    int fd = ::open((path + ".died").c_str(), O_CREAT | O_EXCL | O_WRONLY, 0666);
    if (fd >= 0) return 3;
  } else if (does("die")) {
    say("error", "cannot go on");
    return 3;
  }
  bool deaf = does("ignore-term");
  struct sigaction action{};
  action.sa_handler = [](int) { terminated = 1; };
  ::sigaction(SIGTERM, &action, nullptr);
  if (does("orphan")) {
    if (::fork() == 0) {
      if (::fork() == 0) {
        ::close(1);
        ::close(2);
        for (;;) ::pause();
      }
      ::_exit(0);
    }
  }
  bool control = name == "space-control";
  while (terminated == 0 || deaf) {
    pollfd watched{control ? 3 : -1, POLLIN, 0};
    if (::poll(&watched, 1, 20) <= 0) continue;
    int client = ::accept4(3, nullptr, nullptr, SOCK_CLOEXEC);
    if (client >= 0) answer(client);
  }
  int order = ::open((directory + "/order").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  std::string line = name + "\n";
  if (order >= 0) {
    [[maybe_unused]] ssize_t ignored = ::write(order, line.data(), line.size());
  }
  return 0;
}
