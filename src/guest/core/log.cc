// SPDX-License-Identifier: Apache-2.0
#include "guest/core/log.h"

#include <unistd.h>

#include <string>

#include "lib/base/bytes.h"

namespace space::guest {

void log_line(std::string_view what, std::string_view text) {
  std::string line = "spaced: ";
  line.append(escape(what, 100)).append(": ").append(escape(text, 300)).append("\n");
  [[maybe_unused]] ssize_t put =
      ::write(STDERR_FILENO, line.data(), line.size());  // nowhere to report a failure
}

void log_error(std::string_view what, const Error& error) {
  log_line(what, error.describe());
}

}  // namespace space::guest
