// SPDX-License-Identifier: Apache-2.0
#include "node/capture/e2e/qemu_vm.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "lib/os/file.h"
#include "lib/os/unix_socket.h"

namespace space::node::capture::e2e {
namespace {

// A stuck guest must fail the test, not hang it.
constexpr auto kPatience = std::chrono::seconds(120);

// Ticks of the time-stamp counter in 100 ms: a guest under emulation can't calibrate it reliably while busy.
std::string tsc_khz() {
  auto begin = std::chrono::steady_clock::now();
  auto ticks = __rdtsc();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ticks = __rdtsc() - ticks;
  auto us =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin).count();
  return std::to_string(ticks * 1000 / static_cast<unsigned long long>(us));
}

}  // namespace

QemuVm::QemuVm(const std::string& folder, const std::string& name, Start start) : base_(folder + "/" + name) {
  std::string ram = base_ + ".ram";
  os::Fd placeholder(::open(ram.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  EXPECT_EQ(0, ::ftruncate(placeholder.get(), static_cast<off_t>(kGuestBytes)));
  struct stat info{};
  EXPECT_EQ(0, ::fstat(placeholder.get(), &info));
  std::string size = std::to_string(kGuestMiB);
  std::vector<std::string> arguments = {
      "qemu-system-x86_64",
      "-M",
      "microvm,accel=tcg,memory-backend=m0",
      "-cpu",
      "max",
      "-m",
      size,
      "-nographic",
      "-nodefaults",
      "-no-user-config",
      "-no-reboot",
      "-serial",
      "file:" + base_ + ".console",
      "-object",
      "memory-backend-file,id=m0,size=" + size + "M,mem-path=" + ram + ",share=off",
      "-global",
      "migration.send-configuration=off",
      "-qmp",
      "unix:" + base_ + ".qmp,server=on,wait=off",
      "-chardev",
      "socket,id=c0,path=" + base_ + ".port,server=on,wait=off",
      "-device",
      "virtio-serial-device",
      "-device",
      "virtserialport,chardev=c0,name=space.0",
      "-drive",
      "if=none,id=d0,format=raw,file=" + folder +
          "/disk.img,readonly=on,aio=threads,cache.direct=on,cache.no-flush=on",
      "-device",
      "virtio-blk-device,drive=d0",
      "-kernel",
      folder + "/vmlinuz",
      "-initrd",
      folder + "/initramfs.gz",
      "-append",
      "console=ttyS0 quiet tsc_early_khz=" + tsc_khz() + " no_timer_check reboot=t panic=-1",
      "-sandbox",
      "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"};
  if (start == Start::kWaitForState) arguments.insert(arguments.end(), {"-incoming", "defer"});
  std::vector<std::string> environment = {
      "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LD_PRELOAD=" SHIM_LIBRARY, "SPACE_SHIM_SOCKET=" + shim_socket(),
      "SPACE_SHIM_RAM=" + std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino)};
  auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (auto& text : texts) out.push_back(text.data());
    out.push_back(nullptr);
    return out;
  };
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, (base_ + ".log").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  int failed = ::posix_spawnp(&pid_, "qemu-system-x86_64", &actions, nullptr, pointers(arguments).data(),
                              pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0)
    throw std::runtime_error("qemu-system-x86_64 can't be started: apt-get install qemu-system-x86");
  qmp_ = connect(base_ + ".qmp");
  read_line(qmp_.get(), qmp_buffer_);  // greeting
  qmp("qmp_capabilities");
  port_ = connect(base_ + ".port");
}

QemuVm::~QemuVm() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

os::Fd QemuVm::connect(const std::string& path) {
  auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    auto socket = os::connect_unix(path);
    if (socket.ok()) return std::move(socket).value();
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      throw std::runtime_error("QEMU ended: " + evidence());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // for another program's socket to appear
  }
  throw std::runtime_error("QEMU does not listen at " + path);
}

std::string QemuVm::read_line(int fd, std::string& buffer) {
  for (;;) {
    if (auto end = buffer.find('\n'); end != std::string::npos) {
      std::string line = buffer.substr(0, end);
      buffer.erase(0, end + 1);
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
      return line;
    }
    pollfd wait{fd, POLLIN, 0};
    if (::poll(&wait, 1, std::chrono::milliseconds(kPatience).count()) <= 0)
      throw std::runtime_error("no answer from " + base_ + ": " + evidence());
    char bytes[4096];
    ssize_t got = ::read(fd, bytes, sizeof bytes);
    if (got <= 0) throw std::runtime_error("the VMM of " + base_ + " ended: " + evidence());
    buffer.append(bytes, static_cast<std::size_t>(got));
  }
}

std::string QemuVm::qmp(const std::string& command, const std::string& arguments, int fd) {
  std::string text = R"({"execute":")" + command + R"(","arguments":{)" + arguments + "}}\n";
  std::vector<int> fds;
  if (fd >= 0) fds.push_back(fd);
  EXPECT_EQ(text.size(), os::send_with_fds(qmp_.get(), as_bytes(text), fds).value());
  for (;;) {
    std::string answer = read_line(qmp_.get(), qmp_buffer_);
    if (answer.starts_with(R"({"error")")) throw std::runtime_error(command + ": " + answer);
    if (answer.starts_with(R"({"return")")) return answer;  // anything else is an event
  }
}

std::string QemuVm::evidence() const {
  auto log = os::read_file(base_ + ".log");
  auto console = os::read_file(base_ + ".console");
  return "VMM says: " + (log.ok() ? *log : "") + "\nguest says: " + (console.ok() ? *console : "");
}

std::string QemuVm::line() {
  return read_line(port_.get(), port_buffer_);
}

std::string QemuVm::say(const std::string& text) {
  EXPECT_TRUE(os::write_all(port_.get(), as_bytes(text + "\n")).ok());
  return line();
}

void QemuVm::save_devices(const std::string& path) {
  qmp("xen-save-devices-state", R"("live":false,"filename":")" + path + "\"");
}

void QemuVm::load_devices_and_run(const std::string& path) {
  os::Fd state(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  qmp("getfd", R"("fdname":"state")", state.get());
  qmp("migrate-incoming", R"("uri":"fd:state")");
  std::string status;
  do {
    status = qmp("query-status");
  } while (status.find("inmigrate") != std::string::npos);
  if (status.find(R"("running")") == std::string::npos) qmp("cont");
}

}  // namespace space::node::capture::e2e
