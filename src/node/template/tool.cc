// SPDX-License-Identifier: Apache-2.0
#include "node/template/tool.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/core.h>

#include "lib/base/bytes.h"
#include "lib/os/fd.h"

namespace space::node::tmpl {
namespace {

constexpr std::size_t kKeptOutput = 256u << 10;
constexpr std::size_t kMaxLine = 4096;
constexpr int kQuietMs = 10'000;
constexpr int kSetupFailed = 125;  // the child could not get as far as exec; it has written why

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const auto& text : texts)
    out.push_back(const_cast<char*>(text.c_str()));  // NOLINT: execve's type, not written
  out.push_back(nullptr);
  return out;
}

// Everything below until exec runs in the child: async-signal-safe calls only, on memory prepared before.
[[noreturn]] void die(const char* what) {
  const char* why = strerrordesc_np(errno);
  for (const char* part : {"cannot ", what, ": ", why != nullptr ? why : "?", "\n"}) {
    if (::write(2, part, std::strlen(part)) < 0) break;
  }
  ::_exit(kSetupFailed);
}

void enter_namespaces(const Tool& tool, const std::string& inner_proc, const std::string& inner_dev) {
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) die("make mounts private");
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) die("mount /proc");
  for (const auto& bind : tool.binds) {
    if (::mount(bind.from.c_str(), bind.to.c_str(), nullptr, MS_BIND, nullptr) != 0) die(bind.to.c_str());
  }
  if (tool.chroot.empty()) return;
  if (::mount("proc", inner_proc.c_str(), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
    die("mount proc in the root");
  if (::mount("/dev", inner_dev.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0)
    die("mount /dev in the root");
  if (::chroot(tool.chroot.c_str()) != 0) die("enter the root");
}

struct Prepared {
  std::vector<char*> argv;
  std::vector<char*> envp;
  std::string inner_proc;
  std::string inner_dev;
  int output = -1;
  pid_t parent = 0;
};

[[noreturn]] void child(const Tool& tool, const Prepared& p) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (tool.namespaces == Namespaces::kShared && ::getppid() != p.parent) ::_exit(kSetupFailed);
  ::dup2(p.output, 1);
  ::dup2(p.output, 2);
  const int null = ::open("/dev/null", O_RDONLY);
  if (null < 0 || ::dup2(null, 0) < 0) die("open /dev/null");
  ::close_range(3, ~0U, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::umask(022);
  ::setsid();
  if (tool.namespaces == Namespaces::kOwn) enter_namespaces(tool, p.inner_proc, p.inner_dev);
  if (::chdir(tool.directory.c_str()) != 0) die("change directory");
  environ = const_cast<char**>(p.envp.data());  // NOLINT: so that execvp searches the PATH that the tool gets
  ::execvp(p.argv[0], p.argv.data());
  if (errno == ENOENT) ::_exit(127);
  die("execute it");
}

// Collects output, hands out lines, remembers the tail.
class Output {
 public:
  explicit Output(const LineFn& on_line) : on_line_(on_line) {}

  void append(std::string_view data) {
    tail_.append(data);
    if (tail_.size() > 2 * kKeptOutput) tail_.erase(0, tail_.size() - kKeptOutput);
    for (const char c : data) {
      if (c == '\n' || c == '\r') {
        flush();
      } else if (line_.size() < kMaxLine) {
        line_.push_back(c);
      }
    }
  }
  void flush() {
    if (!line_.empty() && on_line_) on_line_(line_);
    line_.clear();
  }
  [[nodiscard]] std::string tail() const {
    return tail_.size() > kKeptOutput ? tail_.substr(tail_.size() - kKeptOutput) : tail_;
  }

 private:
  const LineFn& on_line_;
  std::string line_;
  std::string tail_;
};

// Until every writer has closed its end.
void drain(int fd, Output& output, Reporter& reporter) {
  std::array<char, 16384> buffer;
  while (true) {
    pollfd poll{fd, POLLIN, 0};
    const int ready = ::poll(&poll, 1, kQuietMs);
    if (ready == 0) reporter.still_busy();
    if (ready <= 0) continue;
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    output.append({buffer.data(), static_cast<std::size_t>(n)});
  }
  output.flush();
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The last `count` lines, on one line.
std::string last_lines(std::string_view text, int count) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  std::size_t at = text.size();
  for (int i = 0; i < count && at != std::string_view::npos && at > 0; ++i) at = text.rfind('\n', at - 1);
  std::string out(at == std::string_view::npos || at == 0 ? text : text.substr(at + 1));
  for (char& c : out) {
    if (c == '\n') c = '|';
  }
  return escape(out, 2000);
}

}  // namespace

std::vector<std::string> base_environment() {
  std::vector<std::string> out{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                               "HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"};
  for (const char* name :
       {"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}) {
    if (const char* value = std::getenv(name)) out.push_back(fmt::format("{}={}", name, value));
  }
  return out;
}

Error classify_failure(std::string_view program, std::string_view status, std::string_view output) {
  if (contains(output, "No space left on device") || contains(output, "not enough free space") ||
      contains(output, "Could not allocate block in ext2 filesystem")) {
    return make_error(Code::kResourceExhausted, "template.no_space",
                      fmt::format("{} ran out of disk space: {}", program, last_lines(output, 3)));
  }
  for (const std::string_view sign :
       {"Unable to locate package ", "has no installation candidate", "Couldn't find any package"}) {
    const std::size_t at = output.find(sign);
    if (at == std::string_view::npos) continue;
    std::size_t begin = output.rfind('\n', at);
    begin = begin == std::string_view::npos ? 0 : begin + 1;
    const std::string_view line = output.substr(begin, output.find('\n', at) - begin);
    return field_error("packages", "template.package_not_found", escape(line));
  }
  for (const std::string_view sign :
       {"Temporary failure resolving", "Could not resolve", "Could not connect", "Failed to fetch",
        "Network is unreachable", "Connection timed out", "Connection failed"}) {
    if (!contains(output, sign)) continue;
    return make_error(
        Code::kUnavailable, "template.no_network",
        fmt::format("{} could not reach the package archive: {}", program, last_lines(output, 4)));
  }
  return make_error(Code::kInternal, "template.tool_failed",
                    fmt::format("{} {}: {}", program, status, last_lines(output, 12)));
}

Result<std::string> run_tool(const Tool& tool, Reporter& reporter, const LineFn& on_line) {
  const std::string program = tool.argv.at(0);
  std::vector<std::string> environment = base_environment();
  environment.insert(environment.end(), tool.environment.begin(), tool.environment.end());
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error(errno, "template.tool_failed", "cannot make a pipe");
  os::Fd reading(ends[0]);
  os::Fd writing(ends[1]);
  const Prepared prepared{pointers(tool.argv),  pointers(environment), tool.chroot + "/proc",
                          tool.chroot + "/dev", writing.get(),         ::getpid()};
  const unsigned long flags =
      SIGCHLD |
      (tool.namespaces == Namespaces::kOwn ? static_cast<unsigned long>(CLONE_NEWNS | CLONE_NEWPID) : 0UL);
  // SAFETY: without CLONE_VM the child has its own copy of memory and stack, as after fork(); it only makes
  // async-signal-safe calls on what was prepared above until it executes.
  const long pid = ::syscall(SYS_clone, flags, nullptr, nullptr, nullptr, nullptr);
  if (pid < 0) {
    if (errno == EPERM) {
      return make_error(Code::kFailedPrecondition, "template.not_root",
                        "building a template needs root (own mount namespace)");
    }
    return errno_error(errno, "template.tool_failed", "cannot start " + program);
  }
  if (pid == 0) child(tool, prepared);
  writing.reset();
  Output output(on_line);
  drain(reading.get(), output, reporter);
  int status = 0;
  while (::waitpid(static_cast<pid_t>(pid), &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output.tail();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127 && output.tail().empty()) {
    return make_error(Code::kFailedPrecondition, "template.tool_missing",
                      fmt::format("{} is not installed (see scripts/setup)", program));
  }
  const std::string how = WIFSIGNALED(status) ? fmt::format("was killed by signal {}", WTERMSIG(status))
                                              : fmt::format("failed with status {}", WEXITSTATUS(status));
  return classify_failure(program, how, output.tail());
}

}  // namespace space::node::tmpl
