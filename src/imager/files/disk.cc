// SPDX-License-Identifier: Apache-2.0
#include "imager/files/disk.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "lib/base/check.h"

namespace space::imager::files {
namespace {

constexpr std::uint16_t bit(std::size_t sector) {
  return static_cast<std::uint16_t>(1u << sector);
}

}  // namespace

Disk::Disk(std::string spool, std::uint64_t bytes, std::shared_ptr<store::OpenSnapshot> base,
           os::Random& random)
    : spool_(std::move(spool)), bytes_(bytes), random_(random), base_(std::move(base)) {}

Result<std::unique_ptr<Disk>> Disk::create(std::string spool, std::uint64_t bytes,
                                           std::shared_ptr<store::OpenSnapshot> base, os::Random& random) {
  if (bytes == 0 || bytes % store::kBlockBytes != 0) {
    return field_error("disk_bytes", "imager.disk_size", "a disk's size is a multiple of 64 KiB");
  }
  std::unique_ptr<Disk> disk(new Disk(std::move(spool), bytes, std::move(base), random));
  SPACE_TRY(disk->live_, WriteLayer::create(disk->spool_, bytes, random));
  return disk;
}

Disk::Stack Disk::stack() const {
  Stack s;
  s.layers.push_back(live_);
  for (auto it = frozen_.rbegin(); it != frozen_.rend(); ++it) s.layers.push_back(it->layer);
  s.base = base_;
  return s;
}

Result<void> Disk::read_base(const Stack& s, std::uint64_t block, std::size_t first_sector,
                             std::span<std::byte> out) {
  if (!s.base || (block + 1) * store::kBlockBytes > s.base->map(store::MapKind::kDisk).size_bytes()) {
    std::memset(out.data(), 0, out.size());
    return {};
  }
  auto& map = s.base->map(store::MapKind::kDisk);
  if (out.size() == store::kBlockBytes) return map.read(block, out);
  std::byte whole[store::kBlockBytes];
  SPACE_CHECK_OK(map.read(block, whole));
  std::memcpy(out.data(), whole + first_sector * kSectorBytes, out.size());
  return {};
}

// Whole sectors of one block.
Result<void> Disk::read_block_part(const Stack& s, std::uint64_t block, std::size_t first_sector,
                                   std::span<std::byte> out) {
  std::size_t count = out.size() / kSectorBytes;
  auto wanted = static_cast<std::uint16_t>(((1u << count) - 1u) << first_sector);
  for (const auto& layer : s.layers) {
    auto masks = layer->masks(block);
    auto data = static_cast<std::uint16_t>(masks.data & wanted);
    auto zero = static_cast<std::uint16_t>(masks.zero & wanted);
    for (std::size_t i = first_sector; i < first_sector + count;) {
      if ((zero & bit(i)) != 0) {
        std::memset(out.data() + (i - first_sector) * kSectorBytes, 0, kSectorBytes);
        ++i;
        continue;
      }
      std::size_t run = 0;
      while (i + run < first_sector + count && (data & bit(i + run)) != 0) ++run;
      if (run != 0) {
        SPACE_CHECK_OK(layer->read(block * kSectorsPerBlock + i,
                                   out.subspan((i - first_sector) * kSectorBytes, run * kSectorBytes)));
      }
      i += std::max<std::size_t>(run, 1);
    }
    wanted &= static_cast<std::uint16_t>(~(data | zero));
    if (wanted == 0) return {};
  }
  for (std::size_t i = first_sector; i < first_sector + count;) {
    std::size_t run = 0;
    while (i + run < first_sector + count && (wanted & bit(i + run)) != 0) ++run;
    if (run != 0) {
      SPACE_CHECK_OK(
          read_base(s, block, i, out.subspan((i - first_sector) * kSectorBytes, run * kSectorBytes)));
    }
    i += std::max<std::size_t>(run, 1);
  }
  return {};
}

Result<void> Disk::read(std::uint64_t offset, std::span<std::byte> out) {
  if (offset > bytes_ || out.size() > bytes_ - offset) {
    return make_error(Code::kInvalidArgument, "imager.out_of_range", "read beyond the end of the disk");
  }
  std::shared_lock lock(cut_mutex_);
  Stack s = stack();
  while (!out.empty()) {
    std::uint64_t block = offset / store::kBlockBytes;
    std::size_t within = offset % store::kBlockBytes;
    std::size_t take = std::min<std::size_t>(out.size(), store::kBlockBytes - within);
    std::size_t first = within / kSectorBytes;
    std::size_t sectors = (within + take + kSectorBytes - 1) / kSectorBytes - first;
    if (within % kSectorBytes == 0 && take % kSectorBytes == 0) {
      SPACE_CHECK_OK(read_block_part(s, block, first, out.first(take)));
    } else {
      std::byte whole[store::kBlockBytes];
      std::span<std::byte> part(whole, sectors * kSectorBytes);
      SPACE_CHECK_OK(read_block_part(s, block, first, part));
      std::memcpy(out.data(), part.data() + within - first * kSectorBytes, take);
    }
    offset += take;
    out = out.subspan(take);
  }
  return {};
}

Result<void> Disk::write_partial(std::uint64_t sector, std::size_t within, ByteView data) {
  std::lock_guard one(partial_mutex_);
  std::byte whole[kSectorBytes];
  SPACE_CHECK_OK(read_block_part(stack(), sector / kSectorsPerBlock, sector % kSectorsPerBlock, whole));
  std::memcpy(whole + within, data.data(), data.size());
  return live_->write(sector, whole);
}

Result<void> Disk::write(std::uint64_t offset, ByteView data) {
  if (offset > bytes_ || data.size() > bytes_ - offset) {
    return make_error(Code::kInvalidArgument, "imager.out_of_range", "write beyond the end of the disk");
  }
  std::shared_lock lock(cut_mutex_);
  while (!data.empty()) {
    std::size_t within = offset % kSectorBytes;
    std::size_t take;
    if (within != 0 || data.size() < kSectorBytes) {
      take = std::min(data.size(), kSectorBytes - within);
      SPACE_CHECK_OK(write_partial(offset / kSectorBytes, within, data.first(take)));
    } else {
      take = data.size() / kSectorBytes * kSectorBytes;
      SPACE_CHECK_OK(live_->write(offset / kSectorBytes, data.first(take)));
    }
    offset += take;
    data = data.subspan(take);
  }
  return {};
}

Result<void> Disk::write_zeros(std::uint64_t offset, std::uint64_t length) {
  if (offset > bytes_ || length > bytes_ - offset) {
    return make_error(Code::kInvalidArgument, "imager.out_of_range", "zeros beyond the end of the disk");
  }
  static constexpr std::byte kZeros[kSectorBytes]{};
  std::shared_lock lock(cut_mutex_);
  while (length != 0) {
    std::size_t within = offset % kSectorBytes;
    std::uint64_t take;
    if (within != 0 || length < kSectorBytes) {
      take = std::min<std::uint64_t>(length, kSectorBytes - within);
      SPACE_CHECK_OK(write_partial(offset / kSectorBytes, within, ByteView(kZeros).first(take)));
    } else {
      take = length / kSectorBytes * kSectorBytes;
      live_->set_zero(offset / kSectorBytes, take / kSectorBytes);
    }
    offset += take;
    length -= take;
  }
  return {};
}

bool Disk::dirty() const {
  std::shared_lock lock(cut_mutex_);
  return !live_->empty();
}

Result<CutNumber> Disk::cut() {
  // Made before the lock is taken: opening a file must not be part of the pause of others.
  SPACE_TRY(std::shared_ptr<WriteLayer> fresh, WriteLayer::create(spool_, bytes_, random_));
  std::unique_lock lock(cut_mutex_);
  auto number = static_cast<CutNumber>(++cuts_);
  frozen_.push_back({number, std::move(live_)});
  live_ = std::move(fresh);
  return number;
}

Result<void> Disk::frozen_blocks(CutNumber cut, const TakeBlock& take) {
  Stack s;
  {
    std::shared_lock lock(cut_mutex_);
    for (auto it = frozen_.rbegin(); it != frozen_.rend(); ++it) {
      if (it->cut <= cut) s.layers.push_back(it->layer);
    }
    s.base = base_;
  }
  std::set<std::uint64_t> blocks;
  for (const auto& layer : s.layers) {
    for (auto block : layer->blocks()) blocks.insert(block);
  }
  Bytes content(store::kBlockBytes);
  for (auto block : blocks) {
    SPACE_CHECK_OK(read_block_part(s, block, 0, content));
    SPACE_CHECK_OK(take(block, content));
  }
  return {};
}

void Disk::committed(CutNumber cut, std::shared_ptr<store::OpenSnapshot> snapshot) {
  std::unique_lock lock(cut_mutex_);
  SPACE_CHECK(snapshot);
  while (!frozen_.empty() && frozen_.front().cut <= cut) frozen_.pop_front();
  base_ = std::move(snapshot);
}

std::uint64_t Disk::spooled_bytes() const {
  std::shared_lock lock(cut_mutex_);
  std::uint64_t total = live_->stored_bytes();
  for (const auto& f : frozen_) total += f.layer->stored_bytes();
  return total;
}

}  // namespace space::imager::files
