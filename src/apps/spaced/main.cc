// SPDX-License-Identifier: Apache-2.0
// spaced: the Space Daemon. PID 1 of a guest, or an ordinary process for tests of what talks to it:
//
//   /init                      (as PID 1) boots the machine and serves on its virtio port space.0
//   spaced --socket PATH       serves one connection at a time on a Unix socket
//   spaced --fd N              serves on an open socket and ends with it

#include <fcntl.h>
#include <linux/close_range.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "guest/boot/boot.h"
#include "guest/boot/machine.h"
#include "guest/boot/modules.h"
#include "guest/command/cgroup_tree.h"
#include "guest/command/scanned_tree.h"
#include "guest/core/log.h"
#include "guest/server.h"
#include "lib/base/size.h"
#include "lib/os/unix_socket.h"

namespace space::guest {
namespace {

struct Options {
  std::string socket;  // --socket
  int fd = -1;         // --fd
  bool machine = false;
};

std::uint64_t monotonic_us() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(now.tv_nsec) / 1000;
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  options.machine = ::getpid() == 1;
  if (options.machine) return options;  // the kernel passes words that it doesn't know
  if (argc != 3) return std::nullopt;
  std::string_view name = argv[1], value = argv[2];
  if (name == "--socket") options.socket = value;
  if (name == "--fd") std::from_chars(value.data(), value.data() + value.size(), options.fd);
  if (options.socket.empty() && options.fd < 0) return std::nullopt;
  return options;
}

// Every signal is blocked in every thread; those that matter come through a descriptor. Nothing is inherited.
void take_signals() {
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal <= SIGRTMAX; ++signal) ::sigaction(signal, &standard, nullptr);
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
}

// Descriptors 0 to 2 are taken, so that no other one gets their numbers; a command inherits no others.
void occupy_standard_streams() {
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  } while (fd >= 0 && fd <= 2);
  if (fd > 2) ::close(fd);
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
}

std::size_t output_budget() {
  struct sysinfo info{};
  ::sysinfo(&info);
  return static_cast<std::size_t>(
      std::clamp<std::uint64_t>(std::uint64_t{info.totalram} * info.mem_unit / 32, 8 * kMiB, 64 * kMiB));
}

// Everything the daemon consists of. Lives as long as the process.
class Daemon {
 public:
  Daemon(std::unique_ptr<Loop> loop, std::unique_ptr<ProcessTrees> trees)
      : loop_(std::move(loop)),
        trees_(std::move(trees)),
        pool_(*loop_, kMaxThreads),
        commands_(*loop_, pool_, *trees_, output_budget()),
        services_{*loop_, pool_, commands_, 0, 0, nullptr},
        server_(services_) {}

  Services& services() { return services_; }
  Server& server() { return server_; }
  Loop& loop() { return *loop_; }

  // SIGCHLD collects children; `stop` is called for signals that ask for an end.
  Result<void> watch_signals(std::function<void()> stop) {
    sigset_t wanted;
    sigemptyset(&wanted);
    for (int signal : {SIGCHLD, SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) sigaddset(&wanted, signal);
    signals_ = os::Fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) return errno_error(errno, "guest.internal", "create signalfd");
    loop_->watch(signals_.get(), EPOLLIN, [this, stop = std::move(stop)](std::uint32_t) {
      signalfd_siginfo info{};
      bool children = false;
      while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD) {
          children = true;
        } else {
          stop();
        }
      }
      if (children) commands_.reap();
    });
    return {};
  }

  // Kills all commands, lets the answers leave, then `done`.
  void wind_down(std::function<void()> done) {
    commands_.end_all();
    server_.when_written(std::chrono::milliseconds(500), std::move(done));
  }

  void run() {
    pool_.warm(2);
    services_.ready_us = monotonic_us();
    loop_->run();
  }

 private:
  static constexpr std::size_t kMaxThreads = 32;

  std::unique_ptr<Loop> loop_;
  std::unique_ptr<ProcessTrees> trees_;
  WorkerPool pool_;
  CommandTable commands_;
  Services services_;
  Server server_;
  os::Fd signals_;
};

[[noreturn]] void give_up(std::string_view what, const Error& error) {
  log_error(what, error);
  if (::getpid() == 1) {
    ::sync();
    ::reboot(RB_AUTOBOOT);  // the VMM ends, and the host reads the reason on the console
  }
  ::_exit(1);
}

std::unique_ptr<Daemon> make_daemon(std::unique_ptr<ProcessTrees> trees) {
  auto loop = Loop::create();
  if (!loop.ok()) give_up("start", loop.error());
  return std::make_unique<Daemon>(std::move(loop).value(), std::move(trees));
}

void run_machine(char* argv0, std::uint64_t first_us) {
  auto booted = boot::boot(argv0);
  if (!booted.ok()) give_up("boot", booted.error());
  const boot::Settings settings = booted->settings;
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  boot::trace(settings, "machine");

  std::unique_ptr<ProcessTrees> trees;
  if (auto cgroups = CgroupTrees::open("/sys/fs/cgroup"); cgroups.ok()) {
    trees = std::move(cgroups).value();
  } else {
    log_error("cgroups", cgroups.error());
    trees = std::make_unique<ScannedTrees>();
  }
  boot::trace(settings, "cgroups");
  boot::protect_daemon();
  auto daemon = make_daemon(std::move(trees));
  daemon->services().kernel_boot_us = first_us;
  daemon->services().power = [&daemon, &settings](PowerAction action) {
    daemon->wind_down([&settings, action] { boot::end_machine(settings, action); });
  };
  auto watched = daemon->watch_signals([&daemon] { daemon->services().power(PowerAction::kOff); });
  if (!watched.ok()) give_up("start", watched.error());
  auto port = boot::open_port("space.0");
  if (!port.ok()) give_up("channel", port.error());
  daemon->server().open(std::move(port).value(), ChannelKind::kPort, nullptr);
  boot::trace(settings, "ready");
  auto later = std::make_shared<std::vector<os::Fd>>(std::move(booted->later_modules));
  daemon->loop().defer([&daemon, later] {
    daemon->services().pool.submit([later] { boot::load_later_modules(*later); }, [] {});
  });
  daemon->run();
}

// Serves connection after connection; the next waits in the listener's queue.
void accept_next(Daemon& daemon, int listener) {
  daemon.loop().watch(listener, EPOLLIN, [&daemon, listener](std::uint32_t) {
    os::Fd connection(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection) return;
    daemon.loop().unwatch(listener);
    daemon.server().open(std::move(connection), ChannelKind::kSocket,
                         [&daemon, listener] { accept_next(daemon, listener); });
  });
}

void run_process(const Options& options, std::uint64_t first_us) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  auto daemon = make_daemon(std::make_unique<ScannedTrees>());
  daemon->services().kernel_boot_us = first_us;
  auto stop = [&daemon] { daemon->wind_down([&daemon] { daemon->loop().stop(); }); };
  daemon->services().power = [stop](PowerAction) { stop(); };
  if (auto watched = daemon->watch_signals(stop); !watched.ok()) give_up("start", watched.error());
  os::Fd listener;
  if (options.fd >= 0) {
    ::fcntl(options.fd, F_SETFL, O_NONBLOCK);
    daemon->server().open(os::Fd(options.fd), ChannelKind::kSocket, stop);
  } else {
    auto listening = os::listen_unix(options.socket);
    if (!listening.ok()) give_up("listen", listening.error());
    listener = std::move(listening).value();
    accept_next(*daemon, listener.get());
  }
  daemon->run();
  if (listener) ::unlink(options.socket.c_str());
  ::_exit(0);  // threads may hang in the file system
}

int run(int argc, char** argv) {
  std::uint64_t first_us = monotonic_us();
  take_signals();
  ::mallopt(M_ARENA_MAX, 1);
  auto options = parse(argc, argv);
  if (!options) {
    constexpr std::string_view kUsage = "usage: spaced --socket PATH | --fd N   (or as PID 1 of a guest)\n";
    [[maybe_unused]] ssize_t put = ::write(STDERR_FILENO, kUsage.data(), kUsage.size());
    return 2;
  }
  occupy_standard_streams();
  if (options->machine) {
    run_machine(argv[0], first_us);
  } else {
    run_process(*options, first_us);
  }
  return 0;
}

}  // namespace
}  // namespace space::guest

int main(int argc, char** argv) {
  return space::guest::run(argc, argv);
}
