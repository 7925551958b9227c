// SPDX-License-Identifier: Apache-2.0
#include "imager/store/internal/indexes.h"

#include <algorithm>

namespace space::imager::store {
namespace {

// Roots and footers that are read when an index is made; contents of older ones are stored once more at
// worst.
constexpr std::size_t kMaxIndexedRoots = 1024;
constexpr std::size_t kMaxIndexedPacks = 4096;

}  // namespace

Result<std::shared_ptr<DedupeIndex>> Indexes::get(const std::shared_ptr<const Keys>& keys,
                                                  const CollectorRecord& collector) {
  std::shared_ptr<Indexed> indexed;
  {
    std::lock_guard lock(mutex_);
    auto& place = indexes_[keys->tenant()];
    if (!place) place = std::make_shared<Indexed>();
    indexed = place;
  }
  std::lock_guard lock(indexed->mutex);
  if (indexed->index && indexed->generation == collector.generation) return indexed->index;
  SPACE_TRY(auto packs, core_.objects.list(packs_folder(keys->tenant())));
  std::set<std::string> doomed(collector.doomed.begin(), collector.doomed.end());
  std::set<PackId> live;
  for (const auto& pack : packs) {
    auto id = parse_pack_id(base_name(pack.name));
    if (id && !doomed.contains(pack.name)) live.insert(*id);
  }
  if (indexed->index) {
    indexed->index->keep_packs(live);
  } else {
    auto fresh = std::make_shared<DedupeIndex>(core_.options.dedupe_entries);
    SPACE_CHECK_OK(fill(*fresh, *keys, live));
    indexed->index = std::move(fresh);
  }
  indexed->generation = collector.generation;
  return indexed->index;
}

// Data packs of the newest snapshots, oldest first.
Result<std::vector<PackId>> Indexes::committed_packs(const Keys& keys) {
  SPACE_TRY(auto roots, core_.objects.list(roots_folder(keys.tenant())));
  std::ranges::sort(roots, std::ranges::greater(), &blob::ObjectInfo::modified);
  if (roots.size() > kMaxIndexedRoots) roots.resize(kMaxIndexedRoots);
  std::map<SessionId, std::optional<History>> histories;
  std::vector<PackId> packs;
  for (const auto& object : roots) {
    std::string name = base_name(object.name);
    if (!is_well_formed_id(name)) continue;
    auto root = core_.read_root(keys, SnapshotId(name));
    if (!root.ok()) continue;  // check() names it
    auto [history, fresh] = histories.try_emplace(root->info.session);
    if (fresh) {
      auto state = sessions_.read(keys, root->info.session);
      if (state.ok()) history->second = std::move(state->history);
    }
    if (!history->second || !history->second->find(root->info.id)) continue;
    packs.insert(packs.end(), root->packs.begin(), root->packs.end());
    if (packs.size() >= kMaxIndexedPacks) break;
  }
  std::ranges::reverse(packs);  // the newest last, so that they stay when the index is full
  return packs;
}

Result<void> Indexes::fill(DedupeIndex& index, const Keys& keys, const std::set<PackId>& live) {
  SPACE_TRY(auto packs, committed_packs(keys));
  return core_.workers.for_each(packs.size(), [&](std::size_t i) -> Result<void> {
    if (!live.contains(packs[i])) return {};
    auto footer = core_.frames.footer(keys, packs[i]);
    if (!footer.ok()) return {};  // its contents are stored again; check() names it
    for (const FooterFrame& frame : *footer) {
      if (frame.kind != FrameKind::kUnits) continue;
      for (std::size_t slot = 0; slot < frame.ids.size(); ++slot) {
        index.insert({{Realm::kOwn, packs[i], frame.offset, frame.stored},
                      static_cast<std::uint8_t>(slot),
                      frame.ids[slot]});
      }
    }
    return {};
  });
}

void Indexes::drop(const TenantId& tenant) {
  std::lock_guard lock(mutex_);
  indexes_.erase(tenant);
}

std::uint64_t Indexes::entries() const {
  std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [tenant, indexed] : indexes_) {
    std::unique_lock filling(indexed->mutex, std::try_to_lock);
    if (filling.owns_lock() && indexed->index) sum += indexed->index->size();
  }
  return sum;
}

}  // namespace space::imager::store
