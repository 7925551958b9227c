// SPDX-License-Identifier: Apache-2.0
#include "imager/store/internal/dedupe.h"

#include <algorithm>
#include <bit>

namespace space::imager::store {
namespace {
constexpr std::size_t kWays = 8;
constexpr std::size_t kFirstSlots = 1u << 12;
}  // namespace

DedupeIndex::DedupeIndex(std::size_t max_entries) : max_entries_(std::max(max_entries, kWays)) {
  slots_.resize(std::min(kFirstSlots, std::bit_ceil(max_entries_)));
}

std::optional<UnitRef> DedupeIndex::find(const ContentId& id) const {
  std::lock_guard lock(mutex_);
  std::size_t set = IdHash()(id) & (slots_.size() - 1) & ~(kWays - 1);
  for (std::size_t i = set; i < set + kWays; ++i) {
    const Slot& slot = slots_[i];
    if (slot.pack == 0 || slot.id != id) continue;
    const Pack& pack = packs_[slot.pack - 1];
    if (!pack.live) return std::nullopt;
    return UnitRef{{Realm::kOwn, pack.id, slot.offset, slot.stored}, slot.slot, id};
  }
  return std::nullopt;
}

void DedupeIndex::insert(const UnitRef& unit) {
  std::lock_guard lock(mutex_);
  auto [number, fresh] =
      pack_numbers_.try_emplace(unit.frame.pack, static_cast<std::uint32_t>(packs_.size()));
  if (fresh) {
    packs_.push_back({unit.frame.pack, true});
    ++age_;
  }
  if (used_ * 2 > slots_.size() && slots_.size() < max_entries_) grow();
  place({unit.id, number->second + 1, unit.frame.offset, unit.frame.stored, unit.slot, age_});
}

void DedupeIndex::place(const Slot& slot) {
  std::size_t set = IdHash()(slot.id) & (slots_.size() - 1) & ~(kWays - 1);
  auto first = slots_.begin() + static_cast<std::ptrdiff_t>(set);
  auto worth =
      [&](const Slot& at) {  // the least goes: the same content, then free and dead places, then the oldest
        if (at.pack != 0 && at.id == slot.id) return -2;
        if (at.pack == 0 || !packs_[at.pack - 1].live) return -1;
        return 255 - static_cast<int>(static_cast<std::uint8_t>(age_ - at.age));
      };
  auto victim = std::ranges::min_element(first, first + kWays, {}, worth);
  if (victim->pack == 0) ++used_;
  *victim = slot;
}

void DedupeIndex::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  used_ = 0;
  for (const Slot& slot : old) {
    if (slot.pack != 0) place(slot);
  }
}

void DedupeIndex::keep_packs(const std::set<PackId>& live) {
  std::lock_guard lock(mutex_);
  for (Pack& pack : packs_) pack.live = live.contains(pack.id);
}

bool DedupeIndex::knows_pack(const PackId& pack) const {
  std::lock_guard lock(mutex_);
  return pack_numbers_.contains(pack);
}

std::size_t DedupeIndex::size() const {
  std::lock_guard lock(mutex_);
  return used_;
}

}  // namespace space::imager::store
