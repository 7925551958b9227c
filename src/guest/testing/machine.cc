// SPDX-License-Identifier: Apache-2.0
#include "guest/testing/machine.h"

#include <glob.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "lib/os/file.h"
#include "lib/os/unix_socket.h"

namespace space::guest::testing {
namespace {

std::string kernel_dir() {
  const char* dir = ::getenv("SPACE_TEST_KERNEL_DIR");
  return dir == nullptr ? "" : dir;
}

std::string first_match(const std::string& pattern) {
  glob_t found{};
  std::string path;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) path = found.gl_pathv[0];
  ::globfree(&found);
  return path;
}

pid_t start(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  EXPECT_EQ(::posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), environ), 0) << arguments[0];
  return pid;
}

void run(std::vector<std::string> arguments) {
  std::string shown = arguments[0];
  int status = -1;
  ::waitpid(start(std::move(arguments)), &status, 0);
  EXPECT_EQ(status, 0) << shown;
}

// Under emulation the guest's time stamp counter is the host's, and the guest's own calibration can hang on a
// busy host.
struct TscSample {
  std::uint64_t ticks = 0;
  std::chrono::steady_clock::time_point time;
};

// The clock read between two reads of the counter that lie closest together: not one that was interrupted.
TscSample sample_tsc() {
  TscSample best;
  std::uint64_t least = ~std::uint64_t{0};
  for (int tries = 0; tries < 50; ++tries) {
    std::uint64_t before = __builtin_ia32_rdtsc();
    auto time = std::chrono::steady_clock::now();
    std::uint64_t between = __builtin_ia32_rdtsc() - before;
    if (between >= least) continue;
    least = between;
    best = {before + between / 2, time};
  }
  return best;
}

std::uint64_t tsc_khz() {
  TscSample first = sample_tsc(), second = first;
  while (second.time - first.time < std::chrono::milliseconds(50)) second = sample_tsc();
  auto ns = std::chrono::nanoseconds(second.time - first.time).count();
  return (second.ticks - first.ticks) * 1'000'000 / static_cast<std::uint64_t>(ns);
}

// What stands for systemd: it waits, and ends the machine at the signal that means reboot.target.
constexpr std::string_view kOtherInit =
    "#!/bin/sh\n"
    "trap 'busybox reboot -f' 39\n"
    "while :; do sleep 0.1; done\n";

void make_root(const std::string& root) {
  for (const char* directory : {"bin", "sbin", "etc", "proc", "sys", "dev", "run", "tmp", "root"}) {
    EXPECT_TRUE(os::make_directories(root + "/" + directory, 0755).ok());
  }
  run({"cp", "/bin/busybox", root + "/bin/busybox"});
  for (const char* tool :
       {"sh",    "true", "cat",    "echo",   "ls",       "ps",  "sleep",    "head",  "dd",
        "df",    "stty", "id",     "mount",  "hostname", "nc",  "date",     "dmesg", "tail",
        "touch", "kill", "printf", "setsid", "seq",      "tty", "ifconfig", "stat"}) {
    EXPECT_EQ(::symlink("busybox", (root + "/bin/" + tool).c_str()), 0);
  }
  EXPECT_TRUE(os::write_file_atomic(root + "/sbin/init", kOtherInit, os::Durability::kBuffered, 0755).ok());
  EXPECT_TRUE(os::write_file_atomic(root + "/etc/passwd",
                                    "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000::/tmp:/bin/sh\n",
                                    os::Durability::kBuffered, 0644)
                  .ok());
  EXPECT_TRUE(os::write_file_atomic(root + "/etc/group", "root:x:0:\nagent:x:1000:\ndisk:x:6:agent\n",
                                    os::Durability::kBuffered, 0644)
                  .ok());
}

}  // namespace

std::string cannot_boot() {
  if (kernel_dir().empty()) return "SPACE_TEST_KERNEL_DIR names no unpacked kernel package";
  if (first_match(kernel_dir() + "/boot/vmlinuz-*").empty()) return "no kernel in " + kernel_dir();
  if (::access("/usr/bin/qemu-system-x86_64", X_OK) != 0) return "QEMU is not installed";
  if (::access("/bin/busybox", X_OK) != 0) return "busybox-static is not installed";
  return "";
}

Machine::Machine(const Options& options) {
  char pattern[] = "/tmp/space-machine-XXXXXX";
  dir_ = ::mkdtemp(pattern);
  make_root(dir_ + "/root");
  std::string disk = dir_ + "/disk.img";
  run({"truncate", "-s", std::to_string(options.filesystem_bytes), disk});
  run({"mke2fs", "-q", "-t", "ext4", "-d", dir_ + "/root", disk});
  run({"truncate", "-s", std::to_string(options.disk_bytes), disk});
  run({SPACE_SOURCE_DIR "/templates/mkinitramfs", options.init.empty() ? "--spaced" : "--init",
       options.init.empty() ? SPACED_BINARY : options.init.front(), "--kernel-modules",
       kernel_dir() + "/lib/modules", "--out", dir_ + "/initramfs"});
  // The VMM ends with the test, however that ends.
  pid_ = start({"setpriv",
                "--pdeathsig",
                "KILL",
                "qemu-system-x86_64",
                "-M",
                "microvm,accel=tcg",
                "-cpu",
                "max",
                "-m",
                std::to_string(options.memory_mib),
                "-nographic",
                "-nodefaults",
                "-no-user-config",
                "-no-reboot",
                "-serial",
                "file:" + dir_ + "/console",
                "-chardev",
                "socket,id=c0,path=" + dir_ + "/port,server=on,wait=off",
                "-device",
                "virtio-serial-device",
                "-device",
                "virtserialport,chardev=c0,name=space.0",
                "-drive",
                "file=" + disk + ",format=raw,if=none,id=d0",
                "-device",
                "virtio-blk-device,drive=d0",
                "-kernel",
                first_match(kernel_dir() + "/boot/vmlinuz-*"),
                "-initrd",
                dir_ + "/initramfs",
                "-append",
                "console=ttyS0 quiet mitigations=off tsc_early_khz=" + std::to_string(tsc_khz()) +
                    " no_timer_check reboot=t panic=-1 space.trace " + options.kernel_arguments});
}

Machine::~Machine() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (::testing::Test::HasFailure()) std::fprintf(stderr, "--- console ---\n%s\n", console().c_str());
  os::remove_tree(dir_).ignore("test clean-up");
}

os::Fd Machine::connect() {
  for (;;) {
    auto socket = os::connect_unix(dir_ + "/port");
    if (socket.ok()) return std::move(socket).value();
    if (::waitpid(pid_, nullptr, WNOHANG) != 0) {
      ADD_FAILURE() << "the VMM has ended";
      pid_ = -1;
      return {};
    }
    std::this_thread::yield();
  }
}

bool Machine::wait_for_end() {
  auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < end) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG) == 0 && info.si_pid == pid_) {
      pid_ = -1;
      return true;
    }
    std::this_thread::yield();
  }
  return false;
}

std::string Machine::console() const {
  auto text = os::read_file(dir_ + "/console");
  return text.ok() ? *text : "";
}

}  // namespace space::guest::testing
