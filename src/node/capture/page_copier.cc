// SPDX-License-Identifier: Apache-2.0
#include "node/capture/page_copier.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <thread>

namespace space::node::capture {
namespace {

constexpr std::size_t kMaxPieces = 1024;  // UIO_MAXIOV

// The pieces of one call.
class Batch {
 public:
  explicit Batch(const RamRange& range, std::byte* destination) : range_(range), destination_(destination) {}

  // Takes placements from `from` on until a side is full; returns the first not taken.
  std::size_t fill(std::span<const PagePlacement> placements, std::size_t from) {
    locals_ = remotes_ = 0;
    bytes_ = 0;
    std::size_t at = from;
    for (; at < placements.size(); ++at) {
      const PagePlacement& next = placements[at];
      // SAFETY: an address in the other process, never dereferenced here.
      void* remote = reinterpret_cast<void*>(range_.address_of(next.page));
      void* local = destination_ + next.slot * kPageBytes;
      bool joins_remote = remotes_ > 0 && end_of(remote_[remotes_ - 1]) == remote;
      bool joins_local = locals_ > 0 && end_of(local_[locals_ - 1]) == local;
      if ((!joins_remote && remotes_ == kMaxPieces) || (!joins_local && locals_ == kMaxPieces)) break;
      if (joins_remote)
        remote_[remotes_ - 1].iov_len += kPageBytes;
      else
        remote_[remotes_++] = {remote, kPageBytes};
      if (joins_local)
        local_[locals_ - 1].iov_len += kPageBytes;
      else
        local_[locals_++] = {local, kPageBytes};
      bytes_ += kPageBytes;
    }
    return at;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  ssize_t read(pid_t pid) {
    return ::process_vm_readv(pid, local_.data(), locals_, remote_.data(), remotes_, 0);
  }

 private:
  static void* end_of(const iovec& piece) { return static_cast<std::byte*>(piece.iov_base) + piece.iov_len; }

  const RamRange& range_;
  std::byte* destination_;
  std::array<iovec, kMaxPieces> local_;
  std::array<iovec, kMaxPieces> remote_;
  std::size_t locals_ = 0;
  std::size_t remotes_ = 0;
  std::size_t bytes_ = 0;
};

Result<void> copy_part(const Target& target, std::span<const PagePlacement> placements,
                       std::byte* destination) {
  Batch batch(target.range(), destination);
  for (std::size_t at = 0; at < placements.size();) {
    std::size_t next = batch.fill(placements, at);
    ssize_t got = 0;
    do {
      got = batch.read(target.pid());
    } while (got < 0 && errno == EINTR);
    if (got == static_cast<ssize_t>(batch.bytes())) {
      at = next;
      continue;
    }
    if (got < 0 && errno != EFAULT) return target.failure(errno, "copy guest memory");
    // Stopped early: every whole page before is good. Go on from there; the page itself must make progress
    // alone.
    std::size_t whole = got > 0 ? static_cast<std::size_t>(got) / kPageBytes : 0;
    if (whole == 0) {
      if (!target.alive()) return target.failure(ESRCH, "copy guest memory");
      return make_error(
          Code::kDataLoss, "capture.unreadable_page",
          "page " + std::to_string(placements[at].page) + " of the guest's memory can't be read");
    }
    at += whole;
  }
  return {};
}

}  // namespace

Result<CopyStats> PageCopier::copy(std::span<const PagePlacement> placements, std::byte* destination) {
  auto begin = clock_.now();
  Result<void> first;
  Result<void> second;
  if (threads_ > 1 && placements.size() >= kParallelPages) {
    auto half = placements.size() / 2;
    std::jthread helper([&] { second = copy_part(target_, placements.subspan(half), destination); });
    first = copy_part(target_, placements.first(half), destination);
  } else {
    first = copy_part(target_, placements, destination);
  }
  SPACE_CHECK_OK(std::move(first));
  SPACE_CHECK_OK(std::move(second));
  // The copy goes by process number: only a process that still lives can't have been another one.
  if (!target_.alive()) return target_.failure(ESRCH, "copy guest memory");
  CopyStats stats;
  stats.pages = placements.size();
  stats.time = clock_.now() - begin;
  return stats;
}

}  // namespace space::node::capture
