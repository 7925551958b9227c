// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a disk received since a cut: 4 KiB sectors in blocks of 64 KiB, encrypted in an unlinked local file.
//
// A sector is absent (look below), data, or zero. Blocks get places in the file in the order of their first
// write, so the file grows with what was written and never beyond the size of the disk.
//
// Thread-safe for calls on different sectors; calls on one sector are ordered by the guest, as on any disk.
// Errors: imager.spool (resource_exhausted when the local disk is full).

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "imager/files/sector_cipher.h"
#include "imager/store/types.h"
#include "lib/base/result.h"
#include "lib/os/fd.h"

namespace space::imager::files {

inline constexpr std::size_t kSectorsPerBlock = store::kBlockBytes / kSectorBytes;
static_assert(kSectorsPerBlock == 16);

enum class SectorState : std::uint8_t { kAbsent, kData, kZero };

class WriteLayer {
 public:
  // `spool` is the directory for the layer's file, `disk_bytes` a multiple of 64 KiB.
  static Result<std::unique_ptr<WriteLayer>> create(const std::string& spool, std::uint64_t disk_bytes,
                                                    os::Random& random);

  // Whole sectors.
  Result<void> write(std::uint64_t sector, ByteView data);
  void set_zero(std::uint64_t sector, std::uint64_t count);
  [[nodiscard]] SectorState state(std::uint64_t sector) const;
  // States of a block: bit i of `data` or `zero` stands for its sector i.
  struct Masks {
    std::uint16_t data = 0;
    std::uint16_t zero = 0;
  };
  [[nodiscard]] Masks masks(std::uint64_t block) const;
  // Precondition: all `out.size() / 4 KiB` sectors are data and lie in one block.
  Result<void> read(std::uint64_t sector, std::span<std::byte> out) const;
  // Blocks with any data or zero sector, ascending.
  [[nodiscard]] std::vector<std::uint64_t> blocks() const;
  [[nodiscard]] bool empty() const { return written_.load() == 0; }
  // Bytes that the layer's file holds.
  [[nodiscard]] std::uint64_t stored_bytes() const { return next_place_.load() * store::kBlockBytes; }

 private:
  struct Entry {
    std::uint32_t place = 0;  // 1 + place in the file; 0 = none yet
    std::uint16_t data = 0;
    std::uint16_t zero = 0;
  };
  static constexpr std::size_t kChunk = 512;
  using Chunk = std::array<Entry, kChunk>;

  WriteLayer(os::Fd file, std::uint64_t blocks, os::Random& random);
  Entry* entry(std::uint64_t block);              // made when absent; under mutex_
  const Entry* entry(std::uint64_t block) const;  // may be null; under mutex_

  os::Fd file_;
  SectorCipher cipher_;
  std::uint64_t blocks_;
  mutable std::mutex mutex_;  // the index; never held over I/O
  std::vector<std::unique_ptr<Chunk>> index_;
  std::atomic<std::uint64_t> next_place_{0};
  std::atomic<std::uint64_t> written_{0};
};

}  // namespace space::imager::files
