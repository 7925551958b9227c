// SPDX-License-Identifier: Apache-2.0
#include "guest/core/small_file.h"

#include <unistd.h>

#include <cerrno>

#include "lib/os/fd.h"

namespace space::guest {

std::string read_small(const char* path, std::size_t max, int directory) {
  os::Fd fd(::openat(directory, path, O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!fd) return text;
  char buffer[4096];
  while (text.size() < max) {
    ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  if (text.size() > max) text.resize(max);
  return text;
}

bool write_small(const char* path, std::string_view text, int directory) {
  os::Fd fd(::openat(directory, path, O_WRONLY | O_CLOEXEC));
  if (!fd) return false;
  return ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

unsigned long long number_after(std::string_view text, std::string_view key) {
  for (std::size_t at = 0; at < text.size();) {
    std::string_view line = text.substr(at, text.find('\n', at) - at);
    at += line.size() + 1;
    if (line.substr(0, key.size()) != key) continue;
    unsigned long long value = 0;
    for (char c : line.substr(key.size())) {
      if (c >= '0' && c <= '9') {
        value = value * 10 + static_cast<unsigned>(c - '0');
      } else if (value != 0 || (c != ' ' && c != '\t' && c != ':')) {
        break;
      }
    }
    return value;
  }
  return 0;
}

}  // namespace space::guest
