// SPDX-License-Identifier: Apache-2.0
#pragma once
// The process's own input and output, for a loop that must not block on them.
//
// They are shared with other processes (a shell's terminal), so their descriptors are never made
// non-blocking: threads of a pool do the calls. Resource types; one loop; one call at a time each.

#include <span>

#include "lib/async/blocking_pool.h"
#include "lib/base/bytes.h"
#include "lib/base/result.h"
#include "lib/os/fd.h"

namespace space::cli {

struct Stdio {
  int in = 0;
  int out = 1;
  int err = 2;
};

class InputReader {
 public:
  InputReader(async::BlockingPool& pool, int fd);
  // A read in progress ends (with 0).
  ~InputReader() { stop(); }
  InputReader(const InputReader&) = delete;
  InputReader& operator=(const InputReader&) = delete;

  // Some bytes, as soon as there are any; 0 at the end of the input or after stop(). Errors: os.file.
  async::Task<Result<std::size_t>> read(std::span<std::byte> out);
  void stop();

 private:
  async::BlockingPool& pool_;
  int fd_;
  os::Fd wake_;  // an eventfd that stop() signals
};

class OutputWriter {
 public:
  explicit OutputWriter(async::BlockingPool& pool) : pool_(pool) {}
  // All of `data`. Errors: os.file; unavailable when the reader has gone (EPIPE).
  async::Task<Result<void>> write(int fd, ByteView data);

 private:
  async::BlockingPool& pool_;
};

}  // namespace space::cli
