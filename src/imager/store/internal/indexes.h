// SPDX-License-Identifier: Apache-2.0
#pragma once
// The duplicate indexes of the tenants in use.
//
// An index names only packs of snapshots that are in a session's history: a pack that an ingest under way has
// written may go again when that ingest fails, wherever it runs. It is made from the newest roots and their
// packs' footers at first use, filled by commits, and made valid again when the collector's generation moves.
// Resource, thread-safe.

#include "imager/store/internal/dedupe.h"
#include "imager/store/internal/sessions.h"

namespace space::imager::store {

class Indexes {
 public:
  Indexes(Core& core, Sessions& sessions) : core_(core), sessions_(sessions) {}
  // Valid for ingests that begin under `collector`'s generation.
  Result<std::shared_ptr<DedupeIndex>> get(const std::shared_ptr<const Keys>& keys,
                                           const CollectorRecord& collector);
  void drop(const TenantId& tenant);
  [[nodiscard]] std::uint64_t entries() const;

 private:
  Result<void> fill(DedupeIndex& index, const Keys& keys, const std::set<PackId>& live);
  Result<std::vector<PackId>> committed_packs(const Keys& keys);
  struct Indexed {
    std::mutex mutex;                    // held while the index is filled
    std::shared_ptr<DedupeIndex> index;  // shared with ingests under way when it is dropped
    std::uint64_t generation = 0;
  };
  Core& core_;
  Sessions& sessions_;
  mutable std::mutex mutex_;
  std::map<TenantId, std::shared_ptr<Indexed>> indexes_;  // shared: dropped while being filled
};

}  // namespace space::imager::store
