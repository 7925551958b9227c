// SPDX-License-Identifier: Apache-2.0
#pragma once
// Test support: a child process with guest memory in a private mapping of a real file, armed for write
// protection, that writes in every way a VMM's memory is written. Commands are answered when they are done.
// The test program has one thread when it makes a guest.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lib/os/fd.h"
#include "node/capture/internal/probe_child.h"
#include "node/capture/target.h"

namespace space::node::capture::internal {

class TestGuest {
 public:
  TestGuest(int image, std::uint64_t pages, Arming arming = Arming::kWriteProtect);
  ~TestGuest();
  TestGuest(const TestGuest&) = delete;
  TestGuest& operator=(const TestGuest&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] RamRange range() const { return range_; }
  [[nodiscard]] bool armed() const { return armed_; }

  // Each fills `count` pages from `page` on.
  void fill(std::uint64_t page, std::uint64_t count, std::uint8_t value);  // by the processor
  void load(std::uint64_t page, std::uint64_t count);                      // reads only
  void receive(std::uint64_t page, std::uint8_t value);                    // read(2) from a pipe
  void read_direct(int file, std::uint64_t page,
                   std::uint64_t count);  // pread(2), O_DIRECT or whatever `file` is
  void read_by_ring(int file, std::uint64_t page, std::uint64_t count);  // the same by io_uring
  void fill_in_a_fork(std::uint64_t page, std::uint64_t count,
                      std::uint8_t value);  // a child of the guest, which then ends
  // A thread that writes counters to random pages until stop_writing().
  void start_writing(std::uint64_t seed);
  void stop_writing();
  [[nodiscard]] std::uint64_t writes() const;  // by that thread so far, seen from outside

  // All of memory as it is, by /proc/PID/mem.
  [[nodiscard]] std::vector<std::byte> memory() const;

 private:
  void order(std::uint8_t what, std::uint64_t page, std::uint64_t count, std::uint64_t value);

  pid_t pid_ = -1;
  os::Fd commands_;
  os::Fd answers_;
  RamRange range_;
  bool armed_ = false;
  std::uint64_t* writes_ = nullptr;  // shared with the child
};

// A file for a guest to map, filled with pages that are all different; each kind is a real file system.
enum class ImageKind : std::uint8_t { kMemory, kDisk, kFuse };
class TestImage {
 public:
  TestImage(ImageKind kind, std::uint64_t pages);
  ~TestImage();
  TestImage(const TestImage&) = delete;
  TestImage& operator=(const TestImage&) = delete;
  [[nodiscard]] int fd() const { return fd_.get(); }
  // What page `page` holds, repeated.
  static std::uint64_t word_of(std::uint64_t page) { return 0x9e3779b97f4a7c15u * (page + 1); }

 private:
  struct Fuse;
  os::Fd fd_;
  std::string folder_;
  Fuse* fuse_ = nullptr;
};

}  // namespace space::node::capture::internal
