// SPDX-License-Identifier: Apache-2.0
#include "node/vmm/kvm_probe.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "lib/base/error.h"
#include "lib/os/fd.h"
#include "node/process/run.h"

#ifdef __x86_64__
#include <linux/kvm.h>
#endif

namespace space::node::vmm {
namespace {

constexpr std::uint32_t kRounds = 10'000'000;

int say(int status, const char* text) {
  std::puts(text);
  std::fflush(stdout);
  return status;
}

}  // namespace

#ifdef __x86_64__
namespace {

// mov $10000000,%ecx; dec %ecx; jnz back; hlt
constexpr std::uint8_t kCode[] = {0xb9, 0x80, 0x96, 0x98, 0x00, 0x49, 0x75, 0xfd, 0xf4};
constexpr std::uint64_t kCodeAddress = 0x1000;
constexpr std::size_t kPage = 4096;

// Flat 32-bit segments, protection on.
bool enter_protected_mode(int cpu) {
  kvm_sregs system{};
  if (::ioctl(cpu, KVM_GET_SREGS, &system) != 0) return false;
  kvm_segment code{};
  code.limit = 0xffffffff;
  code.selector = 8;
  code.type = 11;
  code.present = code.db = code.s = code.g = 1;
  kvm_segment data = code;
  data.type = 3;
  data.selector = 16;
  system.cr0 |= 1;
  system.cs = code;
  system.ds = system.es = system.fs = system.gs = system.ss = data;
  kvm_regs registers{};
  registers.rip = kCodeAddress;
  registers.rflags = 2;
  return ::ioctl(cpu, KVM_SET_SREGS, &system) == 0 && ::ioctl(cpu, KVM_SET_REGS, &registers) == 0;
}

void on_alarm(int) {}

}  // namespace

int kvm_probe_main() {
  os::Fd kvm(::open("/dev/kvm", O_RDWR | O_CLOEXEC));
  if (!kvm) return say(2, errno_error(errno, "", "open /dev/kvm").message.c_str());
  os::Fd vm(::ioctl(kvm.get(), KVM_CREATE_VM, 0));
  os::Fd cpu(vm ? ::ioctl(vm.get(), KVM_CREATE_VCPU, 0) : -1);
  int run_size = ::ioctl(kvm.get(), KVM_GET_VCPU_MMAP_SIZE, 0);
  if (!cpu || run_size < static_cast<int>(sizeof(kvm_run)))
    return say(1, "/dev/kvm opens but makes no machine");
  void* ram = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  void* shared =
      ::mmap(nullptr, static_cast<std::size_t>(run_size), PROT_READ | PROT_WRITE, MAP_SHARED, cpu.get(), 0);
  if (ram == MAP_FAILED || shared == MAP_FAILED) return say(1, "no memory for a machine");
  std::memcpy(ram, kCode, sizeof kCode);
  kvm_userspace_memory_region region{};
  region.guest_phys_addr = kCodeAddress;
  region.memory_size = kPage;
  region.userspace_addr =
      reinterpret_cast<std::uint64_t>(ram);  // SAFETY: the mapping lives until the process ends
  if (::ioctl(vm.get(), KVM_SET_USER_MEMORY_REGION, &region) != 0 || !enter_protected_mode(cpu.get())) {
    return say(1, "/dev/kvm opens but its machine takes no state");
  }
  // An emulating KVM comes back at the signal; one that hangs is killed from outside.
  struct sigaction action{};
  action.sa_handler = on_alarm;
  ::sigaction(SIGALRM, &action, nullptr);
  itimerval limit{};
  limit.it_value.tv_sec = 1;
  ::setitimer(ITIMER_REAL, &limit, nullptr);
  auto start = std::chrono::steady_clock::now();
  int failed = ::ioctl(cpu.get(), KVM_RUN, 0);
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  kvm_regs registers{};
  ::ioctl(cpu.get(), KVM_GET_REGS, &registers);
  auto rounds = kRounds - static_cast<std::uint32_t>(registers.rcx);
  // SAFETY: KVM keeps a kvm_run at the start of this mapping of at least its size.
  bool halted = failed == 0 && static_cast<const kvm_run*>(shared)->exit_reason == KVM_EXIT_HLT;
  bool native = halted && took < kNativeLimit;
  char line[128];
  std::snprintf(line, sizeof line, "%u rounds in %.1f ms", rounds, took.count());
  return say(native ? 0 : 1, line);
}
#else
int kvm_probe_main() {
  return say(2, "the probe knows no guest for this architecture");
}
#endif

KvmVerdict probe_kvm(const std::string& program) {
  auto finished = process::run({{program, "probe-kvm"}, {}, kProbeDeadline, 4096});
  if (!finished.ok()) return {false, finished.error().message};
  std::string found = finished->output.substr(0, finished->output.find('\n'));
  if (finished->exit_code == 1) found += ": it emulates, or is broken";
  return {finished->exit_code == 0, found.empty() ? "the probe said nothing" : found};
}

Result<WantedAcceleration> parse_acceleration(std::string_view text) {
  if (text == "auto") return WantedAcceleration::kAuto;
  if (text == "kvm") return WantedAcceleration::kKvm;
  if (text == "tcg") return WantedAcceleration::kTcg;
  return field_error("accel", "node.acceleration", "acceleration must be auto, kvm or tcg");
}

Result<Acceleration> choose_acceleration(WantedAcceleration wanted, const std::string& program) {
  if (wanted == WantedAcceleration::kTcg) return Acceleration::kTcg;
  KvmVerdict verdict = probe_kvm(program);
  if (verdict.usable) return Acceleration::kKvm;
  if (wanted == WantedAcceleration::kAuto) return Acceleration::kTcg;
  return make_error(Code::kFailedPrecondition, "node.kvm_unusable",
                    "KVM was demanded but doesn't run guests here (" + verdict.found + "); use --accel auto");
}

}  // namespace space::node::vmm
