// SPDX-License-Identifier: Apache-2.0
#pragma once
// Mark and sweep, in two phases.
//
// One step: take the lease; list objects, *then* read leases and heads and mark what they reach; delete what
// an earlier step doomed and is still unmarked after the grace; doom what is unmarked now: move the
// generation on, then *fence*: write a new version of every session's head that names the generation. A
// writer that began before finds its head swapped and is refused, even if it slept through it all; one that
// begins later sees the doomed list and refers to nothing on it. So between dooming and deleting nothing can
// come to refer to a doomed object unseen by the next mark.
//
// Tenants are collected on their own, so that one whose key is away only keeps its own garbage; base images
// are marked through all tenants, hence only when all keys are there. Any damage met while marking stops the
// step before deletion.

#include "imager/store/internal/sessions.h"

namespace space::imager::store {

class Collector {
 public:
  Collector(Core& core, Sessions& sessions) : core_(core), sessions_(sessions) {}
  Result<GcReport> step(const TenantId& tenant);

 private:
  struct Live {
    std::set<std::string> objects;                     // full names of roots, histories, prefetch lists
    std::set<PackId> packs;                            // of the tenant being collected
    std::set<std::pair<PackId, std::uint32_t>> nodes;  // visited tree nodes
  };
  struct Sweepable {
    std::vector<blob::ObjectInfo> objects;
    std::vector<SessionId> sessions;
  };
  Result<Sweepable> list(const TenantId& tenant);
  // Marks what `user`'s sessions and leases reach of `tenant`'s objects.
  Result<void> mark_sessions(const TenantId& user, const TenantId& tenant, Live& live);
  Result<void> mark_root(const Access& access, const RootRecord& root, const TenantId& tenant, Live& live);
  Result<void> mark_tree(const Access& access, const TreeRef& tree, const TenantId& tenant, Live& live);
  Result<void> save(const Keys& keys, Core::CollectorState& state);
  Result<void> fence(const TenantId& tenant, std::uint64_t generation);
  Result<Core::CollectorState> load(const Keys& keys);
  Result<GcReport> collect(const Keys& keys, Core::CollectorState& state);
  Result<void> has_head(const Keys& keys, const std::string& object);
  Result<std::vector<TenantId>> users(const TenantId& tenant);

  Core& core_;
  Sessions& sessions_;
};

// Folders of t/, which are tenants.
Result<std::vector<TenantId>> list_tenants(blob::ObjectStore& objects);

}  // namespace space::imager::store
