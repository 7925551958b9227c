// SPDX-License-Identifier: Apache-2.0
#include "imager/store/internal/collector.h"

#include <algorithm>

namespace space::imager::store {
namespace {

// Doomed at once; the rest waits for the next step. Keeps the record below the size of a head.
constexpr std::size_t kMaxDoomed = 4096;

Error blocked(const Error& cause) {
  if (cause.code != Code::kDataLoss && cause.code != Code::kNotFound) return cause;
  return make_error(Code::kFailedPrecondition, "store.gc_blocked",
                    "nothing is deleted while the store is damaged: " + cause.message);
}

}  // namespace

Result<std::vector<TenantId>> list_tenants(blob::ObjectStore& objects) {
  SPACE_TRY(auto names, objects.list_folders("t"));
  std::vector<TenantId> tenants;
  for (const std::string& name : names) {
    if (is_well_formed_id(name)) tenants.emplace_back(name);
  }
  return tenants;
}

Result<std::vector<TenantId>> Collector::users(const TenantId& tenant) {
  if (tenant == kBaseTenant) return list_tenants(core_.objects);
  return std::vector<TenantId>{tenant};
}

Result<void> Collector::save(const Keys& keys, Core::CollectorState& state) {
  std::string name = gc_name(keys.tenant());
  SPACE_TRY(Bytes object, seal_record(keys, core_.random, ObjectKind::kCollector,
                                      fmt::format("{}/{}", name, state.version + 1), state.record));
  auto swapped = core_.objects.swap_head(name, state.version, object);
  if (!swapped.ok() && swapped.error().reason == "blob.conflict") {
    return make_error(Code::kAborted, "store.gc_busy", "another collector took over");
  }
  SPACE_TRY(state.version, std::move(swapped));
  return {};
}

// The record; when it is damaged a new one whose generation is beyond all that heads name, with nothing
// doomed.
Result<Core::CollectorState> Collector::load(const Keys& keys) {
  auto state = core_.collector_state(keys);
  if (state.ok() || state.error().code != Code::kDataLoss) return state;
  Core::CollectorState fresh;
  SPACE_TRY(auto versions, core_.objects.head_versions(gc_name(keys.tenant())));
  fresh.version = versions.empty() ? 0 : versions.back();
  SPACE_TRY(auto tenants, users(keys.tenant()));
  for (const TenantId& user : tenants) {
    SPACE_TRY(auto user_keys, core_.rings.get(user));
    SPACE_TRY(auto sessions, sessions_.list(user));
    for (const SessionId& session : sessions) {
      SPACE_TRY(auto head, sessions_.read(*user_keys, session, Sessions::Tombstones::kShown));
      std::uint64_t named = user == keys.tenant() ? head.head.generation : head.head.base_generation;
      fresh.record.generation = std::max(fresh.record.generation, named);
    }
  }
  fresh.record.generation += 2;  // one may have been moved on to and not yet been written to any head
  return fresh;
}

Result<GcReport> Collector::step(const TenantId& tenant) {
  SPACE_TRY(auto keys, core_.rings.get(tenant));
  auto loaded = load(*keys);
  if (!loaded.ok()) return blocked(loaded.error());
  Core::CollectorState state = std::move(loaded).value();
  WallTime now = core_.clock.wall();
  if (!state.record.owner.empty() && state.record.lease_until > now) {
    return make_error(Code::kAborted, "store.gc_busy", "another collector is at work on this tenant");
  }
  state.record.owner = core_.random.id_text();
  state.record.lease_until = now + core_.options.lease_ttl;
  SPACE_CHECK_OK(save(*keys, state));
  auto report = collect(*keys, state);
  state.record.owner.clear();
  auto released = save(*keys, state);
  if (!report.ok()) return report;
  SPACE_CHECK_OK(released);
  return report;
}

Result<Collector::Sweepable> Collector::list(const TenantId& tenant) {
  Sweepable all;
  for (const std::string& folder :
       {roots_folder(tenant), prefetch_folder(tenant), history_folder(tenant), packs_folder(tenant)}) {
    SPACE_TRY(auto objects, core_.objects.list(folder));
    all.objects.insert(all.objects.end(), objects.begin(), objects.end());
  }
  SPACE_TRY(all.sessions, sessions_.list(tenant));
  return all;
}

Result<void> Collector::mark_tree(const Access& access, const TreeRef& tree, const TenantId& tenant,
                                  Live& live) {
  auto own = [&](const FrameRef& frame) {
    auto keys = access.keys(frame.realm);
    return keys.ok() && (*keys)->tenant() == tenant;
  };
  Trees::Visitor visitor;
  visitor.enter = [&](const NodeRef& ref, std::uint64_t) {
    if (own(ref.frame)) live.packs.insert(ref.frame.pack);
    bool fresh = live.nodes.emplace(ref.frame.pack, ref.frame.offset).second;
    return fresh ? Trees::Visit::kDescend : Trees::Visit::kSkip;
  };
  visitor.node = [&](const NodeRef& ref, const TreeNode& node, std::uint64_t) -> Result<void> {
    const PackId* last = nullptr;
    for (std::size_t i = 0; node.leaf && i < kFanout; ++i) {
      if (!node.leaf->present[i]) continue;
      FrameRef frame = node.leaf->units[i].frame;
      frame.realm = resolve(ref.frame.realm, frame.realm);
      if (last != nullptr && *last == frame.pack) continue;
      last = &node.leaf->units[i].frame.pack;
      if (own(frame)) live.packs.insert(frame.pack);
    }
    return {};
  };
  visitor.damaged = [](const NodeRef&, const Error& error) -> Result<void> { return error; };
  return core_.trees.walk(access, tree, visitor);
}

Result<void> Collector::mark_root(const Access& access, const RootRecord& root, const TenantId& tenant,
                                  Live& live) {
  for (const NodeRef& part : root.device_state) {
    SPACE_TRY(auto keys, access.keys(part.frame.realm));
    if (keys->tenant() == tenant) live.packs.insert(part.frame.pack);
  }
  SPACE_CHECK_OK(mark_tree(access, root.memory, tenant, live));
  return mark_tree(access, root.disk, tenant, live);
}

Result<void> Collector::mark_sessions(const TenantId& user, const TenantId& tenant, Live& live) {
  SPACE_TRY(auto access, core_.access(user));
  std::set<SnapshotId> snapshots;
  SPACE_TRY(auto leases, core_.leases.active(user));
  for (const LeaseRecord& lease : leases) {
    if (lease.snapshot) snapshots.insert(*lease.snapshot);
  }
  std::set<SnapshotId> listed;
  SPACE_TRY(auto sessions, sessions_.list(user));
  for (const SessionId& session : sessions) {
    auto state = sessions_.read(*access.own, session, Sessions::Tombstones::kShown);
    if (!state.ok()) {
      if (state.error().code == Code::kNotFound) continue;  // an empty folder
      return std::move(state).error();
    }
    if (!state->damage.empty()) {
      return make_error(Code::kDataLoss, "store.corrupt",
                        state->damage.front().object + ": " + state->damage.front().detail);
    }
    if (state->head.deleted) continue;
    if (user == tenant && !state->head.checkpoint.empty()) {
      live.objects.insert(history_name(user, session, state->head.checkpoint));
    }
    for (const SnapshotInfo& info : state->history.all()) listed.insert(info.id);
  }
  snapshots.insert(listed.begin(), listed.end());
  for (const SnapshotId& snapshot : snapshots) {
    auto root = core_.read_root(*access.own, snapshot);
    if (!root.ok()) {
      if (!listed.contains(snapshot) && root.error().code == Code::kNotFound)
        continue;  // a lease on what is gone
      return std::move(root).error();
    }
    if (user == tenant) {
      live.objects.insert(root_name(user, snapshot));
      live.objects.insert(prefetch_name(user, snapshot));
    }
    SPACE_CHECK_OK(mark_root(access, *root, tenant, live));
  }
  return {};
}

Result<void> Collector::fence(const TenantId& tenant, std::uint64_t generation) {
  SPACE_TRY(auto tenants, users(tenant));
  for (const TenantId& user : tenants) {
    SPACE_TRY(auto keys, core_.rings.get(user));
    SPACE_TRY(auto sessions, sessions_.list(user));
    for (const SessionId& session : sessions) {
      auto fenced = sessions_.change(*keys, session, [&](HeadRecord& head, const History&) -> Result<void> {
        std::uint64_t& named = user == tenant ? head.generation : head.base_generation;
        named = std::max(named, generation);
        return {};
      });
      if (!fenced.ok() && fenced.error().code != Code::kNotFound) return std::move(fenced).error();
    }
  }
  return {};
}

// Snapshots are removed through heads. A root whose session has no head at all is what is left of a damaged
// store.
Result<void> Collector::has_head(const Keys& keys, const std::string& object) {
  std::string name = base_name(object);
  if (object != roots_folder(keys.tenant()) + "/" + name || !is_well_formed_id(name)) return {};
  auto root = core_.read_root(keys, SnapshotId(name));
  if (!root.ok()) return {};  // nothing could be restored from it
  SPACE_TRY(auto versions, core_.objects.head_versions(head_name(keys.tenant(), root->info.session)));
  if (!versions.empty()) return {};
  return make_error(Code::kDataLoss, "store.missing",
                    head_name(keys.tenant(), root->info.session) + " is missing");
}

Result<GcReport> Collector::collect(const Keys& keys, Core::CollectorState& state) {
  const TenantId& tenant = keys.tenant();
  GcReport report;
  WallTime now = core_.clock.wall();
  if (!state.record.fenced && state.record.generation != 0) {
    // The step before didn't get this far: what it doomed isn't safe to delete before the next one.
    auto fenced = fence(tenant, state.record.generation);
    if (!fenced.ok()) return blocked(fenced.error());
    state.record.fenced = true;
    state.record.doomed_at = now;
    SPACE_CHECK_OK(save(keys, state));
  }
  SPACE_TRY(Sweepable all, list(tenant));
  Live live;
  WallTime oldest_writer = WallTime::max();
  SPACE_TRY(auto tenants, users(tenant));
  SPACE_TRY(auto leases, core_.leases.active(tenant));
  for (const LeaseRecord& lease : leases) {
    if (!lease.snapshot) oldest_writer = std::min(oldest_writer, lease.since);
  }
  for (const TenantId& user : tenants) {
    auto marked = mark_sessions(user, tenant, live);
    if (!marked.ok()) return blocked(marked.error());
  }
  report.live_packs = live.packs.size();

  bool ripe = state.record.fenced && now >= state.record.doomed_at + core_.options.gc_grace;
  std::set<std::string> doomed_before(state.record.doomed.begin(), state.record.doomed.end());
  std::vector<std::string> doomed;
  bool grew = false;
  for (const auto& object : all.objects) {
    auto pack = parse_pack_id(base_name(object.name));
    bool is_pack = pack && object.name == pack_name(tenant, *pack);
    if (is_pack ? live.packs.contains(*pack) : live.objects.contains(object.name)) continue;
    if (doomed_before.contains(object.name)) {
      if (!ripe) {
        doomed.push_back(object.name);
        continue;
      }
      SPACE_CHECK_OK(core_.objects.remove(object.name));
      if (is_pack) core_.frames.forget_pack(*pack);
      ++report.deleted_objects;
      report.deleted_bytes += object.bytes;
      continue;
    }
    if (object.modified >= oldest_writer) {
      ++report.kept_by_lease;
    } else if (object.modified + core_.options.gc_grace <= now && doomed.size() < kMaxDoomed) {
      if (auto owned = has_head(keys, object.name); !owned.ok()) return blocked(owned.error());
      doomed.push_back(object.name);
      grew = true;
    }
  }
  report.doomed_objects = doomed.size();
  state.record.doomed = std::move(doomed);
  if (grew) {
    ++state.record.generation;
    state.record.fenced = false;
  }
  SPACE_CHECK_OK(save(keys, state));
  if (grew) {
    auto fenced = fence(tenant, state.record.generation);
    if (!fenced.ok()) return blocked(fenced.error());
    state.record.fenced = true;
    state.record.doomed_at = now;
  }
  report.generation = state.record.generation;

  // Tombstones whose snapshots are all gone.
  for (const SessionId& session : all.sessions) {
    auto head = sessions_.read(keys, session, Sessions::Tombstones::kShown);
    bool over =
        head.ok() && head->head.deleted && head->damage.empty() && state.record.doomed.empty() && ripe;
    if (over) SPACE_CHECK_OK(core_.objects.remove_head(head_name(tenant, session)));
  }
  return report;
}

}  // namespace space::imager::store
