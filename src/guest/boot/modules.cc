// SPDX-License-Identifier: Apache-2.0
#include "guest/boot/modules.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <memory>

#include "guest/core/log.h"
#include "guest/core/small_file.h"

namespace space::guest::boot {
namespace {

void load(int file, std::string_view name) {
  if (::syscall(SYS_finit_module, file, "", 0) == 0 || errno == EEXIST) return;
  log_line("module", errno_error(errno, "", name).message);
}

bool has_virtio_device(unsigned type) {
  std::unique_ptr<DIR, int (*)(DIR*)> devices(::opendir("/sys/bus/virtio/devices"), &::closedir);
  if (!devices) return false;
  while (dirent* entry = ::readdir(devices.get())) {
    std::string path = std::string("/sys/bus/virtio/devices/") + entry->d_name + "/device";
    std::string text = read_small(path.c_str(), 32);  // 0x0001
    if (!text.empty() && std::strtoul(text.c_str(), nullptr, 16) == type) return true;
  }
  return false;
}

}  // namespace

std::vector<ModuleLine> parse_order(std::string_view text) {
  constexpr std::string_view kDevice = "device=";
  std::vector<ModuleLine> lines;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    std::string_view file = line.substr(0, line.find(' '));
    std::string_view when = line.substr(std::min(file.size() + 1, line.size()));
    ModuleLine parsed{std::string(file)};
    if (when.substr(0, kDevice.size()) == kDevice) {
      parsed.when = ModuleLine::When::kDevice;
      std::from_chars(when.data() + kDevice.size(), when.data() + when.size(), parsed.device);
    } else if (when == "later") {
      parsed.when = ModuleLine::When::kLater;
    } else if (!when.empty()) {
      continue;
    }
    if (!file.empty() && file.find('/') == std::string_view::npos) lines.push_back(std::move(parsed));
  }
  return lines;
}

std::vector<os::Fd> load_modules(const std::string& directory) {
  std::vector<os::Fd> later;
  std::string order = directory + "/order";
  for (const auto& line : parse_order(read_small(order.c_str()))) {
    std::string path = directory + "/" + line.file;
    os::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) {
      log_line("module", errno_error(errno, "", path).message);
    } else if (line.when == ModuleLine::When::kLater) {
      later.push_back(std::move(file));
    } else if (line.when == ModuleLine::When::kNow || has_virtio_device(line.device)) {
      load(file.get(), line.file);
    }
    ::unlink(path.c_str());
  }
  ::unlink(order.c_str());
  ::rmdir(directory.c_str());
  return later;
}

void load_later_modules(const std::vector<os::Fd>& files) {
  for (const auto& file : files) load(file.get(), "a later module");
}

}  // namespace space::guest::boot
