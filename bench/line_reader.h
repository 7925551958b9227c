// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lines from a descriptor, each awaited with a limit. Value type over a borrowed descriptor.

#include <chrono>
#include <string>

#include "lib/base/result.h"

namespace space::bench {

class LineReader {
 public:
  // The next line without its end. Errors: bench.ended, bench.timeout.
  Result<std::string> next(int fd, std::chrono::milliseconds limit);

 private:
  std::string buffer_;
};

}  // namespace space::bench
