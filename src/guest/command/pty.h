// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pseudo-terminals.

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "lib/base/result.h"
#include "lib/os/fd.h"

namespace space::guest {

struct PtySize {
  std::uint16_t rows = 24;
  std::uint16_t cols = 80;
};

struct Pty {
  os::Fd master;    // non-blocking
  os::Fd terminal;  // the command's side
};

// Errors: guest.no_terminal.
Result<Pty> open_pty(PtySize size);
void resize_pty(int master, PtySize size);
// The process group in the foreground, or 0.
pid_t foreground_group(int master);
// The byte that means end of input, when the terminal is in the mode that knows one.
std::optional<std::byte> end_of_input_byte(int master);

}  // namespace space::guest
