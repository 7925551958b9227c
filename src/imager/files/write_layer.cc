// SPDX-License-Identifier: Apache-2.0
#include "imager/files/write_layer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/check.h"

namespace space::imager::files {
namespace {

Error spool_error(const char* what) {
  return errno_error(errno, "imager.spool", what);
}

// Bits `first` to `first + count - 1`.
std::uint16_t bits(std::size_t first, std::size_t count) {
  return static_cast<std::uint16_t>(((1u << count) - 1u) << first);
}

}  // namespace

WriteLayer::WriteLayer(os::Fd file, std::uint64_t blocks, os::Random& random)
    : file_(std::move(file)), cipher_(random), blocks_(blocks), index_((blocks + kChunk - 1) / kChunk) {}

Result<std::unique_ptr<WriteLayer>> WriteLayer::create(const std::string& spool, std::uint64_t disk_bytes,
                                                       os::Random& random) {
  os::Fd file(::open(spool.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) return spool_error("make a disk layer");
  return std::unique_ptr<WriteLayer>(
      new WriteLayer(std::move(file), disk_bytes / store::kBlockBytes, random));
}

WriteLayer::Entry* WriteLayer::entry(std::uint64_t block) {
  SPACE_CHECK(block < blocks_);
  auto& chunk = index_[block / kChunk];
  if (!chunk) chunk = std::make_unique<Chunk>();
  return &(*chunk)[block % kChunk];
}

const WriteLayer::Entry* WriteLayer::entry(std::uint64_t block) const {
  SPACE_CHECK(block < blocks_);
  const auto& chunk = index_[block / kChunk];
  return chunk ? &(*chunk)[block % kChunk] : nullptr;
}

Result<void> WriteLayer::write(std::uint64_t sector, ByteView data) {
  while (!data.empty()) {
    std::uint64_t block = sector / kSectorsPerBlock;
    std::size_t first = sector % kSectorsPerBlock;
    std::size_t count = std::min(kSectorsPerBlock - first, data.size() / kSectorBytes);
    std::uint64_t place;
    {
      std::lock_guard lock(mutex_);
      Entry* e = entry(block);
      if (e->place == 0) e->place = static_cast<std::uint32_t>(next_place_.fetch_add(1) + 1);
      place = e->place - 1;
    }
    std::byte sealed[store::kBlockBytes];
    auto piece = data.first(count * kSectorBytes);
    std::span<std::byte> out(sealed, piece.size());
    std::uint64_t at = place * kSectorsPerBlock + first;
    cipher_.encrypt(at, piece, out);
    for (std::size_t done = 0; done < out.size();) {
      ssize_t put = ::pwrite(file_.get(), out.data() + done, out.size() - done,
                             static_cast<off_t>(at * kSectorBytes + done));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return spool_error("write to a disk layer");
      done += static_cast<std::size_t>(put);
    }
    {
      // Visible only now: a reader never decrypts a sector that was not written.
      std::lock_guard lock(mutex_);
      Entry* e = entry(block);
      e->data |= bits(first, count);
      e->zero &= static_cast<std::uint16_t>(~bits(first, count));
    }
    written_.fetch_add(count);
    sector += count;
    data = data.subspan(piece.size());
  }
  return {};
}

void WriteLayer::set_zero(std::uint64_t sector, std::uint64_t count) {
  std::lock_guard lock(mutex_);
  while (count != 0) {
    std::size_t first = sector % kSectorsPerBlock;
    std::size_t take = std::min<std::uint64_t>(kSectorsPerBlock - first, count);
    Entry* e = entry(sector / kSectorsPerBlock);
    e->zero |= bits(first, take);
    e->data &= static_cast<std::uint16_t>(~bits(first, take));
    if (take == kSectorsPerBlock && e->place != 0) {
      // Best effort: the place stays the block's own, its space goes back to the local disk. Only for whole
      // blocks: a write to another sector of the block may be between its pwrite and its mark.
      ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(e->place - 1) * store::kBlockBytes, store::kBlockBytes);
    }
    written_.fetch_add(take);
    sector += take;
    count -= take;
  }
}

WriteLayer::Masks WriteLayer::masks(std::uint64_t block) const {
  std::lock_guard lock(mutex_);
  const Entry* e = entry(block);
  return e == nullptr ? Masks{} : Masks{e->data, e->zero};
}

SectorState WriteLayer::state(std::uint64_t sector) const {
  Masks m = masks(sector / kSectorsPerBlock);
  auto bit = bits(sector % kSectorsPerBlock, 1);
  return (m.data & bit) != 0   ? SectorState::kData
         : (m.zero & bit) != 0 ? SectorState::kZero
                               : SectorState::kAbsent;
}

Result<void> WriteLayer::read(std::uint64_t sector, std::span<std::byte> out) const {
  std::uint64_t place;
  {
    std::lock_guard lock(mutex_);
    const Entry* e = entry(sector / kSectorsPerBlock);
    SPACE_CHECK(e != nullptr && e->place != 0);
    place = e->place - 1;
  }
  std::uint64_t at = place * kSectorsPerBlock + sector % kSectorsPerBlock;
  for (std::size_t done = 0; done < out.size();) {
    ssize_t got = ::pread(file_.get(), out.data() + done, out.size() - done,
                          static_cast<off_t>(at * kSectorBytes + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return spool_error("read a disk layer");
    if (got == 0)
      return make_error(Code::kDataLoss, "imager.spool", "a disk layer is shorter than what was written");
    done += static_cast<std::size_t>(got);
  }
  cipher_.decrypt(at, out, out);
  return {};
}

std::vector<std::uint64_t> WriteLayer::blocks() const {
  std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> found;
  for (std::size_t c = 0; c < index_.size(); ++c) {
    if (!index_[c]) continue;
    for (std::size_t i = 0; i < kChunk; ++i) {
      const Entry& e = (*index_[c])[i];
      if (e.data != 0 || e.zero != 0) found.push_back(c * kChunk + i);
    }
  }
  return found;
}

}  // namespace space::imager::files
