// SPDX-License-Identifier: Apache-2.0
#pragma once
// Scrubbing, and finding what can still be used of a damaged store.
//
// The checker is given a Core of its own, with empty caches, so that what it reads comes from the disk. Each
// tree node and pack is looked at once however many snapshots share it; only when something is found does a
// second pass find out which snapshots it costs.

#include "imager/store/internal/collector.h"

namespace space::imager::store {

class Checker {
 public:
  Checker(Core& core, Sessions& sessions) : core_(core), sessions_(sessions) {}

  Result<CheckReport> check(CheckDepth depth);
  // Everything of one listed snapshot.
  Result<CheckReport> verify(const TenantId& tenant, const SnapshotId& snapshot);
  Result<Store::Intact> newest_intact(const TenantId& tenant, const SessionId& session, CheckDepth depth);
  Result<std::vector<RecoveredSession>> recover();
  // A new head for a session from its intact roots.
  Result<RecoveredSession> repair(const TenantId& tenant, const SessionId& session);

 private:
  struct Run;
  void check_tenant(const TenantId& tenant, Run& run);
  void check_ring(const TenantId& tenant, Run& run);
  void check_head(const Access& access, const SessionId& session, Run& run);
  void check_root(const Access& access, const SnapshotInfo& info, Run& run);
  void check_tree(const Access& access, const TreeRef& tree, Run& run);
  bool check_pack(const Access& access, const FrameRef& frame, Run& run);
  void check_reference(const Access& access, const FrameRef& frame, std::size_t slot, const ContentId& id,
                       Run& run);
  void check_pack_contents(const std::shared_ptr<const Keys>& keys, const PackId& pack, Run& run);
  void attribute(Run& run);
  // Damage of one snapshot, found by reading it as a restore would.
  std::vector<Damage> damage_of(const Access& access, const SnapshotInfo& info, CheckDepth depth,
                                CheckReport& report);
  void read_tree(const Access& access, MapKind map, const TreeRef& tree, CheckDepth depth,
                 CheckReport& report, std::vector<Damage>& damage);
  Result<std::vector<RecoveredSession>> recover_tenant(const TenantId& tenant);

  Core& core_;
  Sessions& sessions_;
};

}  // namespace space::imager::store
