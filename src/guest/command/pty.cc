// SPDX-License-Identifier: Apache-2.0
#include "guest/command/pty.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <cerrno>

namespace space::guest {

// SAFETY (whole file): each ioctl gets the type that ioctl_tty(2) names for its request.

Result<Pty> open_pty(PtySize size) {
  auto fail = [](const char* what) { return errno_error(errno, "guest.no_terminal", what); };
  os::Fd master(::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  if (!master) return fail("open /dev/ptmx");
  int unlock = 0;
  if (::ioctl(master.get(), TIOCSPTLCK, &unlock) != 0) return fail("unlock the terminal");
  // By descriptor, not by a path that something in the guest could have replaced.
  os::Fd terminal(::ioctl(master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!terminal) return fail("open the terminal");
  resize_pty(master.get(), size);
  return Pty{std::move(master), std::move(terminal)};
}

void resize_pty(int master, PtySize size) {
  winsize window{};
  window.ws_row = size.rows;
  window.ws_col = size.cols;
  ::ioctl(master, TIOCSWINSZ, &window);
}

pid_t foreground_group(int master) {
  pid_t group = 0;
  return ::ioctl(master, TIOCGPGRP, &group) == 0 && group > 1 ? group : 0;
}

std::optional<std::byte> end_of_input_byte(int master) {
  termios modes{};
  if (::tcgetattr(master, &modes) != 0 || (modes.c_lflag & ICANON) == 0) return std::nullopt;
  return static_cast<std::byte>(modes.c_cc[VEOF]);
}

}  // namespace space::guest
