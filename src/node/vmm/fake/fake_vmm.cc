// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "lib/os/file.h"
#include "lib/os/unix_socket.h"
#include "node/process/spawn.h"
#include "node/slot/jail_process.h"
#include "node/vmm/fake/fake_backend.h"
#include "node/vmm/fake/fake_qmp.h"

namespace space::node::vmm::fake {
namespace {

constexpr const char* kDaemonSocket = "/run/space-fake/spaced.sock";
constexpr std::size_t kMaxLine = 64 * 1024;
constexpr std::size_t kRelayBytes = 64 * 1024;

// Two sockets and the bytes on their way between them. Bounded: reads stop while the other side doesn't take.
struct Relay {
  os::Fd a;
  os::Fd b;
  std::string to_a;
  std::string to_b;
  [[nodiscard]] bool open() const { return a.valid() && b.valid(); }
  void close() {
    a.reset();
    b.reset();
    to_a.clear();
    to_b.clear();
  }
};

// False when the stream has ended.
bool pull(int from, std::string& into) {
  char buffer[kRelayBytes];
  ssize_t got = ::read(from, buffer, sizeof buffer);
  if (got > 0) into.append(buffer, static_cast<std::size_t>(got));
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

bool push(int to, std::string& from) {
  ssize_t put = ::send(to, from.data(), from.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (put > 0) from.erase(0, static_cast<std::size_t>(put));
  return put >= 0 || errno == EAGAIN || errno == EINTR;
}

void bring_up_loopback() {
  os::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, "lo", sizeof request.ifr_name - 1);
  if (::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return;
  request.ifr_flags |= IFF_UP;
  ::ioctl(socket.get(), SIOCSIFFLAGS, &request);
}

class FakeVmm {
 public:
  FakeVmm() {
    for (std::size_t i = 0; i < 3; ++i) listeners_[i] = os::Fd(slot::kFirstInheritedFd + static_cast<int>(i));
    for (auto& listener : listeners_) ::fcntl(listener.get(), F_SETFD, FD_CLOEXEC);
    for (auto& listener : listeners_) ::fcntl(listener.get(), F_SETFL, O_NONBLOCK);
  }

  int run(const std::string& spaced) {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGCHLD);
    ::sigaddset(&signals, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &signals, nullptr);
    signals_ = os::Fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    bring_up_loopback();
    if (!start_daemon(spaced)) return 1;
    while (!over_) step();
    // What waits to be told has a moment.
    if (qmp_) push(qmp_.get(), qmp_out_);
    return status_;
  }

 private:
  bool start_daemon(const std::string& spaced) {
    int ends[2];
    if (!os::make_directories("/run/space-fake", 0755).ok() || ::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
      return false;
    output_ = os::Fd(ends[0]);
    os::Fd write_end(ends[1]);
    os::Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    auto pid =
        process::spawn({spaced, "--socket", kDaemonSocket}, {null.get(), write_end.get(), write_end.get()});
    if (!pid.ok()) {
      std::string text = pid.error().message + "\n";
      [[maybe_unused]] ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
      return false;
    }
    daemon_ = *pid;
    console_out_ = "fake machine\r\n";
    return true;
  }

  void step() {
    std::vector<pollfd> all;
    auto add = [&](int fd, bool read, bool write) {
      all.push_back(
          {read || write ? fd : -1, static_cast<short>((read ? POLLIN : 0) | (write ? POLLOUT : 0)), 0});
    };
    add(signals_.get(), true, false);
    for (auto& listener : listeners_) add(listener.get(), true, false);
    add(output_.get(), console_out_.size() < kRelayBytes, false);
    add(qmp_.get(), true, !qmp_out_.empty());
    add(console_.get(), true, !console_out_.empty());
    add(relay_.a.get(), relay_.to_b.size() < kRelayBytes, !relay_.to_a.empty());
    add(relay_.b.get(), relay_.to_a.size() < kRelayBytes, !relay_.to_b.empty());
    // The daemon's socket appears a moment after its start.
    int timeout = waiting_channel_ ? 5 : -1;
    if (::poll(all.data(), all.size(), timeout) < 0) return;
    auto readable = [&](std::size_t i) { return (all[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0; };
    auto writable = [&](std::size_t i) { return (all[i].revents & POLLOUT) != 0; };
    // Sockets first, signals last: an answer that waits goes out before the end.
    if (readable(4) && !pull(output_.get(), console_out_)) output_.reset();
    if (readable(5)) serve_qmp();
    if (writable(5) && qmp_) push(qmp_.get(), qmp_out_);
    if (readable(6) && !discard(console_)) console_.reset();
    if (writable(6) && console_) push(console_.get(), console_out_);
    if (relay_.open()) {
      bool alive = (!readable(7) || pull(relay_.a.get(), relay_.to_b)) &&
                   (!readable(8) || pull(relay_.b.get(), relay_.to_a));
      alive = alive && push(relay_.a.get(), relay_.to_a) && push(relay_.b.get(), relay_.to_b);
      if (!alive) relay_.close();
    }
    accept_all();
    if (readable(0)) take_signals();
  }

  static bool discard(os::Fd& socket) {
    std::string nothing;
    return pull(socket.get(), nothing);
  }

  // One peer at a time on each socket, as QEMU has it: the next one waits until the present one has left.
  void accept_all() {
    auto take = [](os::Fd& listener) {
      return os::Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    };
    if (!relay_.open() && !waiting_channel_) waiting_channel_ = take(listeners_[0]);
    if (waiting_channel_) {
      if (auto daemon = os::connect_unix(kDaemonSocket); daemon.ok()) {
        relay_.close();
        relay_.a = std::move(waiting_channel_);
        relay_.b = std::move(*daemon);
      }
    }
    if (!qmp_) {
      qmp_ = take(listeners_[1]);
      qmp_in_.clear();
      qmp_out_ = qmp_ ? qmp_greeting() : std::string();
    }
    if (!console_) console_ = take(listeners_[2]);
  }

  void serve_qmp() {
    if (!pull(qmp_.get(), qmp_in_) || qmp_in_.size() > kMaxLine) {
      qmp_.reset();
      return;
    }
    for (std::size_t end; (end = qmp_in_.find('\n')) != std::string::npos; qmp_in_.erase(0, end + 1)) {
      if (end == 0 || (end == 1 && qmp_in_[0] == '\r')) continue;
      QmpAnswer answer = answer_qmp(std::string_view(qmp_in_).substr(0, end), paused_);
      qmp_out_ += answer.text;
      obey(answer.command);
    }
  }

  void obey(QmpCommand command) {
    switch (command) {
      case QmpCommand::kNone:
        break;
      case QmpCommand::kStop:
      case QmpCommand::kContinue:
        paused_ = command == QmpCommand::kStop;
        // Everything else in this pid namespace; the signal doesn't reach its first process.
        ::kill(-1, paused_ ? SIGSTOP : SIGCONT);
        break;
      case QmpCommand::kQuit:
        over_ = true;
        break;
      case QmpCommand::kPowerDown:
        ::kill(daemon_, SIGTERM);
        break;
    }
  }

  void take_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (info.ssi_signo == SIGTERM) over_ = true;
    }
    // As pid 1: orphans of commands land here too.
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (pid != daemon_) continue;
      qmp_out_ += qmp_event("SHUTDOWN");
      over_ = true;
    }
  }

  os::Fd listeners_[3];  // channel, qmp, console
  os::Fd signals_;
  os::Fd output_;  // of the daemon
  os::Fd qmp_;
  os::Fd console_;
  os::Fd waiting_channel_;
  Relay relay_;  // a: the host, b: the daemon
  std::string qmp_in_;
  std::string qmp_out_;
  std::string console_out_;
  pid_t daemon_ = 0;
  bool paused_ = false;
  bool over_ = false;
  int status_ = 0;
};

}  // namespace

int fake_vmm_main(const std::string& spaced) {
  return FakeVmm().run(spaced);
}

}  // namespace space::node::vmm::fake
