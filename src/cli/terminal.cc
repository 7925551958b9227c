// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace space::cli {
namespace {

// What the handler at exit needs; a handler takes no arguments.
struct Saved {
  int fd = -1;
  termios before{};
};
Saved saved;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): see above

void restore() {
  if (saved.fd < 0) return;
  ::tcsetattr(saved.fd, TCSADRAIN, &saved.before);
  saved.fd = -1;
}

}  // namespace

TerminalSize terminal_size(int first, int second) {
  for (int fd : {first, second}) {
    winsize size{};
    // SAFETY: TIOCGWINSZ fills a winsize.
    if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
      return {size.ws_row, size.ws_col};
  }
  return {};
}

RawMode::RawMode(int fd) : fd_(fd) {
  static const bool registered = std::atexit(restore) == 0;
  (void)registered;
  if (::tcgetattr(fd, &saved.before) != 0) return;
  saved.fd = fd;
  raw_ = saved.before;
  ::cfmakeraw(&raw_);
  active_ = true;
  again();
}

RawMode::~RawMode() {
  if (active_) restore();
}

void RawMode::again() {
  if (active_) ::tcsetattr(fd_, TCSADRAIN, &raw_);
}

}  // namespace space::cli
