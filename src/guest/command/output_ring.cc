// SPDX-License-Identifier: Apache-2.0
#include "guest/command/output_ring.h"

#include <algorithm>
#include <cstring>

namespace space::guest {

bool OutputBudget::take(std::size_t bytes) {
  while (used_ + bytes > limit_) {
    if (!reclaim_ || !reclaim_()) return false;
  }
  used_ += bytes;
  return true;
}

void OutputRing::grow_for(std::size_t bytes) {
  std::size_t wanted = std::max(buffer_.size(), kMinimum);
  while (wanted < kCapacity && wanted < size_ + bytes) wanted *= 2;
  if (wanted == buffer_.size()) return;
  if (!budget_.take(wanted - buffer_.size())) {
    if (!buffer_.empty()) return;
    wanted = kMinimum;
    budget_.take_regardless(wanted);
  }
  Bytes larger(wanted);
  std::uint64_t first = begin();
  for (std::uint64_t at = first; at < end_;) {
    ByteView part = from(at);
    std::size_t to = at % wanted;
    std::size_t take = std::min(part.size(), wanted - to);
    std::memcpy(larger.data() + to, part.data(), take);
    at += take;
  }
  buffer_ = std::move(larger);
}

std::size_t OutputRing::room(std::uint64_t keep, std::size_t wanted) {
  std::size_t kept = keep >= end_ ? 0 : std::min<std::size_t>(end_ - keep, size_);
  if (buffer_.size() < kept + wanted) grow_for(wanted);
  return std::min(wanted, buffer_.size() - kept);
}

void OutputRing::append(ByteView bytes) {
  grow_for(bytes.size());
  if (bytes.size() > buffer_.size()) {
    end_ += bytes.size() - buffer_.size();
    bytes = bytes.last(buffer_.size());
  }
  while (!bytes.empty()) {
    std::size_t at = end_ % buffer_.size();
    std::size_t take = std::min(bytes.size(), buffer_.size() - at);
    std::memcpy(buffer_.data() + at, bytes.data(), take);
    end_ += take;
    size_ = std::min(size_ + take, buffer_.size());
    bytes = bytes.subspan(take);
  }
}

ByteView OutputRing::from(std::uint64_t offset) const {
  if (offset >= end_ || buffer_.empty()) return {};
  std::size_t at = offset % buffer_.size();
  return ByteView(buffer_).subspan(at, std::min<std::size_t>(end_ - offset, buffer_.size() - at));
}

void OutputRing::clear() {
  budget_.give(buffer_.size());
  Bytes().swap(buffer_);
  size_ = 0;
}

}  // namespace space::guest
