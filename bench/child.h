// SPDX-License-Identifier: Apache-2.0
#pragma once
// A process that a benchmark starts and ends. Resource type: destruction sends SIGTERM, waits, then SIGKILL.

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "bench/line_reader.h"
#include "lib/base/result.h"
#include "lib/os/fd.h"

namespace space::bench {

class Child {
 public:
  // Runs argv[0] by path or PATH; stdout comes back through output(), stderr goes to `error_file` (appended)
  // or is inherited when empty. Errors: bench.spawn.
  static Result<std::unique_ptr<Child>> start(std::vector<std::string> argv, const std::string& error_file);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  // The next line of stdout without its end. Errors: bench.ended, bench.timeout.
  Result<std::string> read_line(std::chrono::milliseconds limit);
  void terminate(std::chrono::milliseconds grace);

 private:
  Child(pid_t pid, os::Fd output) : pid_(pid), output_(std::move(output)) {}
  bool reap();
  pid_t pid_;
  os::Fd output_;
  LineReader lines_;
};

// Where this program lies; its siblings are beside it.
std::string program_directory();

}  // namespace space::bench
