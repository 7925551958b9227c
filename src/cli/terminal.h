// SPDX-License-Identifier: Apache-2.0
#pragma once
// The user's terminal in raw mode, always restored: by the destructor, and by a handler at exit for every
// other way out that the process can see. Resource type; at most one at a time.

#include <termios.h>

#include <cstdint>

#include "lib/base/result.h"

namespace space::cli {

struct TerminalSize {
  std::uint16_t rows = 24;
  std::uint16_t cols = 80;
};
// Of the first of the two descriptors that is a terminal and knows its size.
TerminalSize terminal_size(int first, int second);

class RawMode {
 public:
  explicit RawMode(int fd);  // does nothing when it isn't a terminal
  ~RawMode();
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;
  // After the process was stopped and continued, when the shell has set the terminal as it likes it.
  void again();

 private:
  int fd_;
  bool active_ = false;
  termios raw_{};
};

}  // namespace space::cli
