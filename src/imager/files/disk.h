// SPDX-License-Identifier: Apache-2.0
#pragma once
// The disk of one sandbox: a stored base with layers of writes over it.
//
//   newest   live layer      what the guest writes now
//            frozen layers   written before a cut whose snapshot isn't committed yet
//   oldest   base            the disk map of a committed snapshot, or zeros
//
// cut() is O(1): the live layer is frozen and an empty one takes its place; the VMM is stopped then, so no
// write is under way. The frozen layers are sealed into the store afterwards, while the guest writes on. When
// the snapshot is committed, its map becomes the base and the layers up to its cut are dropped; when it
// failed, they stay and go into the next one, so nothing is lost.
//
// Thread-safe. Offsets and lengths are bytes; any alignment works, 4 KiB is fast. Errors: imager.spool; those
// of MapReader::read.

#include <deque>
#include <functional>
#include <memory>
#include <shared_mutex>

#include "imager/files/write_layer.h"
#include "imager/store/store.h"

namespace space::imager::files {

// Numbers cuts of one disk, from 1.
enum class CutNumber : std::uint64_t {};

class Disk {
 public:
  // `bytes` is a multiple of 64 KiB; `base` may be null (zeros) or shorter (zeros behind it). `spool` and
  // `random` outlive the disk.
  static Result<std::unique_ptr<Disk>> create(std::string spool, std::uint64_t bytes,
                                              std::shared_ptr<store::OpenSnapshot> base, os::Random& random);

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  Result<void> read(std::uint64_t offset, std::span<std::byte> out);
  Result<void> write(std::uint64_t offset, ByteView data);
  // Reads as zeros from now on.
  Result<void> write_zeros(std::uint64_t offset, std::uint64_t length);

  // Has anything been written since the last cut?
  [[nodiscard]] bool dirty() const;
  Result<CutNumber> cut();
  // Gives every block that differs from the base as of `cut` to `take`, whole (64 KiB), ascending.
  using TakeBlock = std::function<Result<void>(std::uint64_t block, ByteView content)>;
  Result<void> frozen_blocks(CutNumber cut, const TakeBlock& take);
  // The snapshot of `cut` is durable: `snapshot` is the base now.
  void committed(CutNumber cut, std::shared_ptr<store::OpenSnapshot> snapshot);
  // Bytes in the layers' files.
  [[nodiscard]] std::uint64_t spooled_bytes() const;

 private:
  struct Frozen {
    CutNumber cut;
    std::shared_ptr<WriteLayer> layer;
  };
  // Layers to look into, newest first, and the base; a consistent view that stays valid without the lock.
  struct Stack {
    std::vector<std::shared_ptr<WriteLayer>> layers;
    std::shared_ptr<store::OpenSnapshot> base;
  };

  Disk(std::string spool, std::uint64_t bytes, std::shared_ptr<store::OpenSnapshot> base, os::Random& random);
  Result<void> read_block_part(const Stack& stack, std::uint64_t block, std::size_t first_sector,
                               std::span<std::byte> out);
  Result<void> read_base(const Stack& stack, std::uint64_t block, std::size_t first_sector,
                         std::span<std::byte> out);
  Result<void> write_partial(std::uint64_t sector, std::size_t within, ByteView data);
  [[nodiscard]] Stack stack() const;

  std::string spool_;
  std::uint64_t bytes_;
  os::Random& random_;
  // Shared by reads and writes, exclusive for cut and committed: a write lands in exactly one side of a cut.
  mutable std::shared_mutex cut_mutex_;
  std::mutex partial_mutex_;  // read-modify-write of less than a sector
  std::shared_ptr<WriteLayer> live_;
  std::deque<Frozen> frozen_;  // oldest first
  std::shared_ptr<store::OpenSnapshot> base_;
  std::uint64_t cuts_ = 0;
};

}  // namespace space::imager::files
