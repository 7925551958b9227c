// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which contents of one tenant are stored where: an index in memory, bounded, and only ever a help.
//
// Filled from pack footers, so it can be thrown away at any time. Set-associative: a full set forgets its
// oldest entry. Entries are believed only for packs that were there, and not doomed, when the collector's
// present generation began; refresh() re-establishes that. Resource, thread-safe.

#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "imager/store/format/node.h"

namespace space::imager::store {

class DedupeIndex {
 public:
  explicit DedupeIndex(std::size_t max_entries);
  [[nodiscard]] std::optional<UnitRef> find(const ContentId& id) const;
  void insert(const UnitRef& unit);
  // Forgets packs that aren't in `live`.
  void keep_packs(const std::set<PackId>& live);
  [[nodiscard]] bool knows_pack(const PackId& pack) const;
  [[nodiscard]] std::size_t size() const;

 private:
  struct Slot {
    ContentId id{};
    std::uint32_t pack = 0;  // place in packs_, plus one; 0 = free
    std::uint32_t offset = 0;
    std::uint32_t stored = 0;
    std::uint8_t slot = 0;
    std::uint8_t age = 0;
  };
  struct Pack {
    PackId id;
    bool live = true;
  };
  void place(const Slot& slot);
  void grow();

  mutable std::mutex mutex_;
  const std::size_t max_entries_;
  std::vector<Slot> slots_;
  std::size_t used_ = 0;
  std::uint8_t age_ = 0;
  std::vector<Pack> packs_;
  std::unordered_map<PackId, std::uint32_t, IdHash> pack_numbers_;
};

}  // namespace space::imager::store
