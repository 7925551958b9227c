// SPDX-License-Identifier: Apache-2.0
#pragma once
// The last bytes that a command wrote to one stream, addressed by their offset since its start.
//
// Memory grows with use up to kCapacity and comes out of an OutputBudget that all rings share, since the
// daemon's memory is locked: when the budget is used up, a ring stays as large as it is. Pure; resource type.

#include <cstddef>
#include <cstdint>
#include <functional>

#include "lib/base/bytes.h"

namespace space::guest {

class OutputBudget {
 public:
  // `reclaim` is asked to free memory of other rings when the budget is used up; it returns whether it did.
  OutputBudget(std::size_t limit_bytes, std::function<bool()> reclaim)
      : limit_(limit_bytes), reclaim_(std::move(reclaim)) {}
  [[nodiscard]] bool take(std::size_t bytes);
  void give(std::size_t bytes) { used_ -= bytes; }
  void take_regardless(std::size_t bytes) { used_ += bytes; }
  [[nodiscard]] std::size_t used() const { return used_; }

 private:
  std::size_t limit_;
  std::size_t used_ = 0;
  std::function<bool()> reclaim_;
};

class OutputRing {
 public:
  static constexpr std::size_t kCapacity = 256u << 10;
  // What every ring may have, whatever the budget says.
  static constexpr std::size_t kMinimum = 4u << 10;

  explicit OutputRing(OutputBudget& budget) : budget_(budget) {}
  ~OutputRing() { clear(); }
  OutputRing(const OutputRing&) = delete;
  OutputRing& operator=(const OutputRing&) = delete;

  [[nodiscard]] std::uint64_t begin() const { return end_ - size_; }
  [[nodiscard]] std::uint64_t end() const { return end_; }

  // Bytes that append() takes without dropping any from offset `keep` on; tries to grow up to `wanted`.
  std::size_t room(std::uint64_t keep, std::size_t wanted);
  // Adds bytes at end(); the oldest make place.
  void append(ByteView bytes);
  // A contiguous part that starts at `offset` (begin()..end()); empty only at end().
  [[nodiscard]] ByteView from(std::uint64_t offset) const;
  // Drops all bytes and the memory; offsets go on.
  void clear();

 private:
  void grow_for(std::size_t bytes);

  OutputBudget& budget_;
  Bytes buffer_;           // its size is a power of two, or 0
  std::size_t size_ = 0;   // bytes held: offsets end_-size_ .. end_
  std::uint64_t end_ = 0;  // offset o lies at buffer_[o % buffer_.size()]
};

}  // namespace space::guest
