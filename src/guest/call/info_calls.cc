// SPDX-License-Identifier: Apache-2.0
#include "guest/call/info_calls.h"

#include <dirent.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>

#include "guest/call/exec_call.h"
#include "guest/core/small_file.h"

namespace space::guest {
namespace {

constexpr std::size_t kMaxShownArguments = 64;
constexpr std::size_t kMaxShownBytes = 4096;

guestapi::CommandInfoT command_info(Command& command) {
  guestapi::CommandInfoT info;
  info.command_id = command.request().id;
  std::size_t bytes = 0;
  for (const auto& argument : command.request().argv) {
    if (info.argv.size() == kMaxShownArguments || bytes >= kMaxShownBytes) break;
    info.argv.push_back(argument.substr(0, kMaxShownBytes - bytes));
    bytes += info.argv.back().size();
  }
  info.pid = static_cast<std::uint32_t>(command.pid());
  info.running = command.running();
  info.pty = command.request().pty.has_value();
  info.started_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(command.started_at().time_since_epoch()).count());
  if (command.exit()) info.exit = std::make_unique<guestapi::ExitedT>(exited_message(*command.exit()));
  info.stdout_bytes = command.output(0).ring().end();
  info.stderr_bytes = command.output(1).ring().end();
  return info;
}

std::string first_line(std::string text) {
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
}

std::uint32_t count_processes() {
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return 0;
  std::uint32_t count = 0;
  while (dirent* entry = ::readdir(proc)) count += entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? 1 : 0;
  ::closedir(proc);
  return count;
}

}  // namespace

guestapi::HelloReplyT hello(const Services& services) {
  guestapi::HelloReplyT reply;
  reply.protocol = wire::kProtocolVersion;
  reply.version = SPACE_VERSION;
  struct utsname system{};
  if (::uname(&system) == 0) reply.kernel = system.release;
  reply.boot_id = first_line(read_small("/proc/sys/kernel/random/boot_id", 64));
  reply.kernel_boot_us = services.kernel_boot_us;
  reply.ready_us = services.ready_us;
  return reply;
}

guestapi::MetricsT metrics() {
  guestapi::MetricsT reply;
  timespec up{};
  ::clock_gettime(CLOCK_BOOTTIME, &up);
  reply.uptime_ms =
      static_cast<std::uint64_t>(up.tv_sec) * 1000 + static_cast<std::uint64_t>(up.tv_nsec) / 1'000'000;

  // cpu user nice system idle iowait irq softirq steal ..., in ticks
  std::string stat = first_line(read_small("/proc/stat", 4096));
  std::uint64_t ticks[8] = {};
  const char* at = stat.data();
  const char* end = at + stat.size();
  for (auto& value : ticks) {
    while (at < end && (*at < '0' || *at > '9')) ++at;
    at = std::from_chars(at, end, value).ptr;
  }
  auto ms = [tick_ms = 1000 / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK))](std::uint64_t n) {
    return n * tick_ms;
  };
  reply.cpu_user_ms = ms(ticks[0] + ticks[1]);
  reply.cpu_system_ms = ms(ticks[2] + ticks[5] + ticks[6]);
  reply.cpu_idle_ms = ms(ticks[3] + ticks[4]);

  reply.load1 = std::strtof(read_small("/proc/loadavg", 128).c_str(), nullptr);
  std::string memory = read_small("/proc/meminfo", 4096);
  reply.memory_total = number_after(memory, "MemTotal:") * 1024;
  reply.memory_available = number_after(memory, "MemAvailable:") * 1024;
  struct statvfs disk{};
  if (::statvfs("/", &disk) == 0) {
    reply.disk_total = std::uint64_t{disk.f_blocks} * disk.f_frsize;
    reply.disk_free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  }
  reply.processes = count_processes();
  return reply;
}

void ListCommandsCall::start() {
  left_.assign(services_.commands.all().rbegin(), services_.commands.all().rend());
  want_pump();
}

bool ListCommandsCall::pump_more() {
  if (left_.empty()) {
    finish({});
    return false;
  }
  send(command_info(*left_.back()));
  left_.pop_back();
  return true;
}

}  // namespace space::guest
