// SPDX-License-Identifier: Apache-2.0
#include "imager/store/internal/check.h"

#include <algorithm>

#include "imager/store/internal/reader.h"

namespace space::imager::store {
namespace {

std::pair<WallTime, SnapshotId> by_time(const SnapshotInfo& info) {
  return {info.wall_time, info.id};
}

using Place = std::pair<PackId, std::uint32_t>;

Damage::Kind kind_of(const Error& error) {
  if (error.reason == "store.missing" || error.code == Code::kNotFound) return Damage::Kind::kMissing;
  return error.code == Code::kDataLoss ? Damage::Kind::kCorrupt : Damage::Kind::kUnreadable;
}
Damage damage_from(std::string object, const Error& error) {
  return Damage{kind_of(error), std::move(object), error.message, std::nullopt, {}};
}
std::string frame_name(const Access& access, const FrameRef& frame) {
  auto keys = access.keys(frame.realm);
  TenantId owner = keys.ok() ? (*keys)->tenant() : kBaseTenant;
  return fmt::format("{} at byte {}", pack_name(owner, frame.pack), frame.offset);
}

}  // namespace

struct Checker::Run {
  CheckDepth depth{};
  CheckReport report;
  std::set<std::string> referenced;                      // objects
  std::set<Place> nodes;                                 // seen
  std::map<PackId, bool> packs;                          // seen; usable
  std::map<Place, FooterFrame> frames;                   // of the packs seen, at full depth
  std::map<Place, std::vector<std::size_t>> bad_frames;  // places in report.damage
  std::map<PackId, std::size_t> bad_packs;
  std::vector<std::pair<Access, SnapshotInfo>> snapshots;

  std::size_t add(Damage damage) {
    report.damage.push_back(std::move(damage));
    return report.damage.size() - 1;
  }
};

Result<CheckReport> Checker::check(CheckDepth depth) {
  Run run;
  run.depth = depth;
  SPACE_TRY(auto tenants, list_tenants(core_.objects));
  // Base images first: others refer to them.
  std::ranges::sort(tenants, {},
                    [](const TenantId& tenant) { return std::pair(tenant != kBaseTenant, tenant); });
  std::vector<blob::ObjectInfo> objects;
  for (const TenantId& tenant : tenants) {
    for (const std::string& folder :
         {roots_folder(tenant), history_folder(tenant), prefetch_folder(tenant), packs_folder(tenant)}) {
      SPACE_TRY(auto listed, core_.objects.list(folder));
      objects.insert(objects.end(), listed.begin(), listed.end());
    }
  }
  for (const TenantId& tenant : tenants) check_tenant(tenant, run);
  run.report.objects = objects.size();
  if (depth != CheckDepth::kRecords) {
    for (const auto& object : objects) {
      if (!run.referenced.contains(object.name)) run.report.unreferenced.push_back(object.name);
    }
  }
  attribute(run);
  return std::move(run.report);
}

void Checker::check_ring(const TenantId& tenant, Run& run) {
  auto versions = core_.objects.head_versions(ring_name(tenant));
  if (!versions.ok()) {
    run.add(damage_from(ring_name(tenant), versions.error()));
    return;
  }
  // Two versions are made at once and two are always kept; a tenant that has stored something has got beyond
  // one.
  auto stored = core_.objects.list(roots_folder(tenant));
  bool gap = versions->size() == 1 && (versions->back() > 1 || (stored.ok() && !stored->empty()));
  if (gap || (versions->size() > 1 && !std::ranges::binary_search(*versions, versions->back() - 1))) {
    run.add({Damage::Kind::kMissing, ring_name(tenant), "a version was taken away", std::nullopt, {}});
  }
  for (std::uint64_t version : *versions) {
    auto value = core_.objects.read_head_version(ring_name(tenant), version);
    auto ring = value.ok() ? decode_ring(value->bytes) : Result<RingRecord>(value.error());
    if (!ring.ok()) run.add(damage_from(fmt::format("{}/{}", ring_name(tenant), version), ring.error()));
  }
}

void Checker::check_tenant(const TenantId& tenant, Run& run) {
  check_ring(tenant, run);
  auto access = core_.access(tenant);
  if (!access.ok()) {
    if (access.error().code != Code::kNotFound) run.add(damage_from(ring_name(tenant), access.error()));
    return;
  }
  if (auto collector = core_.collector_state(*access->own); !collector.ok()) {
    run.add(damage_from(gc_name(tenant), collector.error()));
  } else if (collector->version > 1) {
    std::string name = fmt::format("{}/{}", gc_name(tenant), collector->version - 1);
    auto value = core_.objects.read_head_version(gc_name(tenant), collector->version - 1);
    auto older = value.ok()
                     ? open_record<CollectorRecord>(*access->own, ObjectKind::kCollector, name, value->bytes)
                     : Result<CollectorRecord>(value.error());
    if (!older.ok() && older.error().code == Code::kDataLoss) run.add(damage_from(name, older.error()));
  }
  auto sessions = sessions_.list(tenant);
  if (!sessions.ok()) {
    run.add(damage_from(heads_folder(tenant), sessions.error()));
    return;
  }
  for (const SessionId& session : *sessions) check_head(*access, session, run);
  // Roots without a head: a head was lost, or the ingest died before its swap.
  auto roots = core_.objects.list(roots_folder(tenant));
  if (!roots.ok()) return;
  for (const auto& object : *roots) {
    std::string name = base_name(object.name);
    if (run.referenced.contains(object.name) || !is_well_formed_id(name)) continue;
    auto root = core_.read_root(*access->own, SnapshotId(name));
    if (!root.ok() || std::ranges::binary_search(*sessions, root->info.session)) continue;
    Damage damage{Damage::Kind::kMissing,
                  head_name(tenant, root->info.session),
                  "the session's head is missing",
                  root->info.session,
                  {root->info.id}};
    run.add(std::move(damage));
  }
}

void Checker::check_head(const Access& access, const SessionId& session, Run& run) {
  const TenantId& tenant = access.own->tenant();
  auto state = sessions_.read(*access.own, session, Sessions::Tombstones::kShown);
  if (!state.ok()) {
    if (state.error().code == Code::kNotFound) return;
    Damage damage = damage_from(
        state.error().code == Code::kDataLoss ? object_named_by(state.error()) : head_name(tenant, session),
        state.error());
    damage.session = session;
    run.add(std::move(damage));
    return;
  }
  for (Damage& damage : state->damage) run.add(std::move(damage));
  if (state->damage.empty() && state->version > 1) {
    // The version before is what a damaged one falls back to.
    std::string name = fmt::format("{}/{}", head_name(tenant, session), state->version - 1);
    auto value = core_.objects.read_head_version(head_name(tenant, session), state->version - 1);
    auto record = value.ok() ? open_record<HeadRecord>(*access.own, ObjectKind::kHead, name, value->bytes)
                             : Result<HeadRecord>(value.error());
    if (!record.ok() && record.error().code == Code::kDataLoss) {
      Damage damage = damage_from(name, record.error());
      damage.session = session;
      run.add(std::move(damage));
    }
  }
  if (state->head.deleted) return;
  if (!state->head.checkpoint.empty()) {
    run.referenced.insert(history_name(tenant, session, state->head.checkpoint));
  }
  for (const SnapshotInfo& info : state->history.all()) check_root(access, info, run);
}

void Checker::check_root(const Access& access, const SnapshotInfo& info, Run& run) {
  const TenantId& tenant = access.own->tenant();
  std::string name = root_name(tenant, info.id);
  ++run.report.snapshots;
  run.referenced.insert(name);
  auto root = core_.read_root(*access.own, info.id);
  if (!root.ok()) {
    Damage damage = damage_from(name, root.error());
    damage.session = info.session;
    damage.snapshots = {info.id};
    run.add(std::move(damage));
    return;
  }
  std::string prefetch = prefetch_name(tenant, info.id);
  run.referenced.insert(prefetch);
  if (auto bytes = core_.objects.get(prefetch, kMaxSealedBytes); bytes.ok()) {
    auto record = open_record<PrefetchRecord>(*access.own, ObjectKind::kPrefetch, prefetch, *bytes);
    if (!record.ok()) run.add(damage_from(prefetch, record.error()));
  }
  if (run.depth == CheckDepth::kRecords) return;
  run.snapshots.emplace_back(access, info);
  for (const NodeRef& part : root->device_state) {
    if (!check_pack(access, part.frame, run)) continue;
    check_reference(access, part.frame, 0, part.id, run);
    auto frame = core_.frames.load(access, part.frame, FrameKind::kBlob);
    if (!frame.ok()) {
      run.bad_frames[{part.frame.pack, part.frame.offset}].push_back(
          run.add(damage_from(frame_name(access, part.frame), frame.error())));
    }
  }
  check_tree(access, root->memory, run);
  check_tree(access, root->disk, run);
}

// Is the pack there (and, at full depth, whole)?
bool Checker::check_pack(const Access& access, const FrameRef& frame, Run& run) {
  auto [seen, fresh] = run.packs.try_emplace(frame.pack, false);
  if (!fresh) return seen->second;
  auto keys = access.keys(frame.realm);
  std::string name =
      keys.ok() ? pack_name((*keys)->tenant(), frame.pack) : pack_name(kBaseTenant, frame.pack);
  if (!keys.ok()) {
    run.bad_packs[frame.pack] = run.add(damage_from(name, keys.error()));
    return false;
  }
  run.referenced.insert(name);
  auto size = core_.objects.size(name);
  if (!size.ok()) {
    Damage damage = damage_from(name, size.error());
    if (size.error().code == Code::kNotFound) damage.detail = "is missing";
    run.bad_packs[frame.pack] = run.add(std::move(damage));
    return false;
  }
  run.packs[frame.pack] = true;
  if (run.depth == CheckDepth::kEverything) check_pack_contents(*keys, frame.pack, run);
  return true;
}

// Every frame of a pack, referenced or not, against its footer.
void Checker::check_pack_contents(const std::shared_ptr<const Keys>& keys, const PackId& pack, Run& run) {
  auto footer = core_.frames.footer(*keys, pack);
  if (!footer.ok()) {
    // Frames may still open without it: those that do cost no snapshot.
    run.add(damage_from(pack_name(keys->tenant(), pack), footer.error()));
    return;
  }
  Access access{keys, keys, {}};
  std::mutex mutex;
  auto checked = core_.workers.for_each(footer->size(), [&](std::size_t i) -> Result<void> {
    const FooterFrame& entry = (*footer)[i];
    FrameRef ref{Realm::kOwn, pack, entry.offset, entry.stored};
    auto frame = core_.frames.load(access, ref, entry.kind);
    Result<void> sound = frame.ok() ? Result<void>() : Result<void>(frame.error());
    std::size_t slot_bytes = entry.plain / entry.ids.size();
    for (std::size_t slot = 0; sound.ok() && slot < entry.ids.size(); ++slot) {
      Domain domain = entry.kind == FrameKind::kNode   ? Domain::kNode
                      : entry.kind == FrameKind::kBlob ? Domain::kBlob
                      : slot_bytes == kPageBytes       ? Domain::kPage
                                                       : Domain::kBlock;
      auto content = (*frame)->content(*keys, domain, slot, slot_bytes, entry.ids[slot]);
      if (!content.ok()) sound = content.error();
    }
    std::lock_guard lock(mutex);
    if (!sound.ok()) {
      run.bad_frames[{pack, entry.offset}].push_back(
          run.add(damage_from(frame_name(access, ref), sound.error())));
    }
    run.report.verified_units += entry.ids.size();
    run.report.verified_bytes += entry.plain;
    return {};
  });
  checked.ignore("the work never fails");
  for (FooterFrame& entry : *footer) {
    Place place{pack, entry.offset};
    run.frames.emplace(place, std::move(entry));
  }
}

// Does the reference point to what it names?
void Checker::check_reference(const Access& access, const FrameRef& frame, std::size_t slot,
                              const ContentId& id, Run& run) {
  if (run.depth != CheckDepth::kEverything) return;
  Place place{frame.pack, frame.offset};
  auto found = run.frames.find(place);
  if (found != run.frames.end() && found->second.stored == frame.stored && slot < found->second.ids.size() &&
      found->second.ids[slot] == id) {
    return;
  }
  if (run.bad_frames.contains(place)) return;
  // No footer, or one that doesn't know it: the frame itself decides.
  for (FrameKind kind : {FrameKind::kUnits, FrameKind::kNode, FrameKind::kBlob}) {
    auto loaded = core_.frames.load(access, frame, kind);
    if (loaded.ok()) return;
    if (kind == FrameKind::kBlob) {
      run.bad_frames[place].push_back(run.add(damage_from(frame_name(access, frame), loaded.error())));
    }
  }
}

void Checker::check_tree(const Access& access, const TreeRef& tree, Run& run) {
  Trees::Visitor visitor;
  visitor.enter = [&](const NodeRef& ref, std::uint64_t) {
    if (!run.nodes.emplace(ref.frame.pack, ref.frame.offset).second) return Trees::Visit::kSkip;
    return check_pack(access, ref.frame, run) ? Trees::Visit::kDescend : Trees::Visit::kSkip;
  };
  visitor.node = [&](const NodeRef& ref, const TreeNode& node, std::uint64_t) -> Result<void> {
    for (std::size_t i = 0; node.leaf && i < kFanout; ++i) {
      if (!node.leaf->present[i]) continue;
      UnitRef unit = node.leaf->units[i];
      unit.frame.realm = resolve(ref.frame.realm, unit.frame.realm);
      if (check_pack(access, unit.frame, run)) check_reference(access, unit.frame, unit.slot, unit.id, run);
    }
    return {};
  };
  visitor.damaged = [&](const NodeRef& ref, const Error& error) -> Result<void> {
    Place place{ref.frame.pack, ref.frame.offset};
    if (!run.bad_frames.contains(place)) {
      run.bad_frames[place].push_back(run.add(damage_from(frame_name(access, ref.frame), error)));
    }
    return {};
  };
  core_.trees.walk(access, tree, visitor).ignore("the visitor never fails");
}

// Which snapshots reach a bad frame or pack. Only when there is one.
void Checker::attribute(Run& run) {
  if (run.bad_frames.empty() && run.bad_packs.empty()) return;
  for (auto& [access, info] : run.snapshots) {
    auto root = core_.read_root(*access.own, info.id);
    if (!root.ok()) continue;
    std::set<std::size_t> hit;
    auto touch = [&](const FrameRef& frame) {
      if (auto bad = run.bad_packs.find(frame.pack); bad != run.bad_packs.end()) hit.insert(bad->second);
      if (auto bad = run.bad_frames.find({frame.pack, frame.offset}); bad != run.bad_frames.end()) {
        hit.insert(bad->second.begin(), bad->second.end());
      }
    };
    Trees::Visitor visitor;
    visitor.enter = [&](const NodeRef& ref, std::uint64_t) {
      touch(ref.frame);
      return run.bad_packs.contains(ref.frame.pack) ? Trees::Visit::kSkip : Trees::Visit::kDescend;
    };
    visitor.node = [&](const NodeRef&, const TreeNode& node, std::uint64_t) -> Result<void> {
      for (std::size_t i = 0; node.leaf && i < kFanout; ++i) {
        if (node.leaf->present[i]) touch(node.leaf->units[i].frame);
      }
      return {};
    };
    visitor.damaged = [](const NodeRef&, const Error&) -> Result<void> { return {}; };
    core_.trees.walk(access, root->memory, visitor).ignore("the visitor never fails");
    core_.trees.walk(access, root->disk, visitor).ignore("the visitor never fails");
    for (const NodeRef& part : root->device_state) touch(part.frame);
    for (std::size_t place : hit) {
      auto& snapshots = run.report.damage[place].snapshots;
      if (snapshots.size() < kMaxNamedSnapshots) snapshots.push_back(info.id);
    }
  }
}

void Checker::read_tree(const Access& access, MapKind map, const TreeRef& tree, CheckDepth depth,
                        CheckReport& report, std::vector<Damage>& damage) {
  std::set<Place> named;
  auto add = [&](const FrameRef& frame, const Error& error) {
    if (named.emplace(frame.pack, frame.offset).second)
      damage.push_back(damage_from(frame_name(access, frame), error));
  };
  Trees::Visitor visitor;
  visitor.enter = [](const NodeRef&, std::uint64_t) { return Trees::Visit::kDescend; };
  visitor.damaged = [&](const NodeRef& ref, const Error& error) -> Result<void> {
    add(ref.frame, error);
    return {};
  };
  visitor.node = [&](const NodeRef& ref, const TreeNode& node, std::uint64_t) -> Result<void> {
    if (!node.leaf || depth != CheckDepth::kEverything) return {};
    std::map<Place, std::pair<FrameRef, std::vector<std::size_t>>> frames;
    for (std::size_t i = 0; i < kFanout; ++i) {
      if (!node.leaf->present[i]) continue;
      FrameRef frame = node.leaf->units[i].frame;
      frame.realm = resolve(ref.frame.realm, frame.realm);
      auto& entry = frames[{frame.pack, frame.offset}];
      entry.first = frame;
      entry.second.push_back(i);
    }
    for (auto& [place, entry] : frames) {
      auto loaded = core_.frames.load(access, entry.first, FrameKind::kUnits);
      if (!loaded.ok()) {
        add(entry.first, loaded.error());
        continue;
      }
      auto keys = access.keys(entry.first.realm);
      for (std::size_t i : entry.second) {
        const UnitRef& unit = node.leaf->units[i];
        auto content = (*loaded)->content(**keys, domain_of(map), unit.slot, unit_bytes(map), unit.id);
        if (!content.ok()) add(entry.first, content.error());
        ++report.verified_units;
        report.verified_bytes += unit_bytes(map);
      }
    }
    return {};
  };
  core_.trees.walk(access, tree, visitor).ignore("the visitor never fails");
}

std::vector<Damage> Checker::damage_of(const Access& access, const SnapshotInfo& info, CheckDepth depth,
                                       CheckReport& report) {
  std::vector<Damage> damage;
  auto root = core_.read_root(*access.own, info.id);
  if (!root.ok()) {
    damage.push_back(damage_from(root_name(access.own->tenant(), info.id), root.error()));
  } else if (depth != CheckDepth::kRecords) {
    auto state = read_blob(core_, access, root->device_state, root->device_state_bytes);
    if (!state.ok()) {
      std::string object = root->device_state.empty() ? root_name(access.own->tenant(), info.id)
                                                      : frame_name(access, root->device_state.front().frame);
      damage.push_back(damage_from(std::move(object), state.error()));
    }
    read_tree(access, MapKind::kMemory, root->memory, depth, report, damage);
    read_tree(access, MapKind::kDisk, root->disk, depth, report, damage);
  }
  for (Damage& one : damage) {
    one.session = info.session;
    one.snapshots = {info.id};
  }
  return damage;
}

Result<CheckReport> Checker::verify(const TenantId& tenant, const SnapshotId& snapshot) {
  SPACE_TRY(auto access, core_.access(tenant));
  CheckReport report;
  report.snapshots = 1;
  SnapshotInfo info;
  info.id = snapshot;
  auto listed = read_listed_root(core_, sessions_, *access.own, snapshot);
  if (listed.ok()) {
    info = listed->info;
  } else if (listed.error().code != Code::kDataLoss) {
    return std::move(listed).error();
  }
  report.damage = damage_of(access, info, CheckDepth::kEverything, report);
  return report;
}

Result<Store::Intact> Checker::newest_intact(const TenantId& tenant, const SessionId& session,
                                             CheckDepth depth) {
  SPACE_TRY(auto access, core_.access(tenant));
  Store::Intact answer;
  std::vector<SnapshotInfo> candidates;
  auto state = sessions_.read(*access.own, session);
  if (state.ok()) {
    answer.passed_over = state->damage;
    candidates = state->history.all();
  } else if (state.error().code == Code::kDataLoss) {
    SPACE_TRY(auto recovered, recover_tenant(tenant));
    for (RecoveredSession& one : recovered) {
      if (one.session != session) continue;
      answer.passed_over = std::move(one.damage);
      candidates = std::move(one.snapshots);
    }
  } else {
    return std::move(state).error();
  }
  CheckReport report;
  for (auto info = candidates.rbegin(); info != candidates.rend(); ++info) {
    auto damage = damage_of(access, *info, depth, report);
    if (damage.empty()) {
      answer.snapshot = *info;
      return answer;
    }
    answer.passed_over.insert(answer.passed_over.end(), damage.begin(), damage.end());
  }
  std::string why =
      answer.passed_over.empty() ? "it has none" : answer.passed_over.front().object + " is damaged";
  return make_error(Code::kDataLoss, "store.nothing_intact",
                    fmt::format("session {} has no intact snapshot: {}", session.str(), why));
}

Result<std::vector<RecoveredSession>> Checker::recover_tenant(const TenantId& tenant) {
  SPACE_TRY(auto access, core_.access(tenant));
  std::map<SessionId, RecoveredSession> found;
  SPACE_TRY(auto sessions, sessions_.list(tenant));
  std::set<SessionId> by_roots;
  std::set<SessionId> settled;
  for (const SessionId& session : sessions) {
    auto state = sessions_.read(*access.own, session, Sessions::Tombstones::kShown);
    if (state.ok() && state->head.deleted) {
      settled.insert(session);
      continue;
    }
    if (!state.ok() && state.error().code == Code::kNotFound) continue;
    RecoveredSession& one = found[session];
    one.tenant = tenant;
    one.session = session;
    if (state.ok()) {
      one.snapshots = state->history.all();
      one.damage = state->damage;
    } else {
      Damage damage = damage_from(head_name(tenant, session), state.error());
      damage.session = session;
      one.damage.push_back(std::move(damage));
    }
    if (one.damage.empty()) {
      settled.insert(session);
    } else {
      by_roots.insert(session);
    }
  }
  // What damaged or missing heads don't tell, the roots do.
  SPACE_TRY(auto roots, core_.objects.list(roots_folder(tenant)));
  for (const auto& object : roots) {
    std::string name = base_name(object.name);
    if (!is_well_formed_id(name)) continue;
    auto root = core_.read_root(*access.own, SnapshotId(name));
    if (!root.ok() || settled.contains(root->info.session)) continue;
    const SessionId& session = root->info.session;
    RecoveredSession& one = found[session];
    if (one.session.empty()) {
      one.tenant = tenant;
      one.session = session;
      one.damage.push_back(
          {Damage::Kind::kMissing, head_name(tenant, session), "the session's head is missing", session, {}});
      by_roots.insert(session);
    }
    if (std::ranges::find(one.snapshots, root->info.id, &SnapshotInfo::id) == one.snapshots.end()) {
      one.snapshots.push_back(root->info);
      one.from_roots_alone = true;
    }
  }
  std::vector<RecoveredSession> all;
  for (auto& [session, one] : found) {
    if (by_roots.contains(session)) std::ranges::sort(one.snapshots, {}, by_time);
    all.push_back(std::move(one));
  }
  return all;
}

Result<std::vector<RecoveredSession>> Checker::recover() {
  std::vector<RecoveredSession> all;
  SPACE_TRY(auto tenants, list_tenants(core_.objects));
  for (const TenantId& tenant : tenants) {
    auto recovered = recover_tenant(tenant);
    if (!recovered.ok()) {
      if (recovered.error().code == Code::kNotFound) continue;
      RecoveredSession unreadable;
      unreadable.tenant = tenant;
      unreadable.damage.push_back(damage_from(ring_name(tenant), recovered.error()));
      all.push_back(std::move(unreadable));
      continue;
    }
    all.insert(all.end(), recovered->begin(), recovered->end());
  }
  return all;
}

Result<RecoveredSession> Checker::repair(const TenantId& tenant, const SessionId& session) {
  SPACE_TRY(auto access, core_.access(tenant));
  SPACE_TRY(auto recovered, recover_tenant(tenant));
  auto found = std::ranges::find(recovered, session, &RecoveredSession::session);
  if (found == recovered.end()) {
    return make_error(Code::kNotFound, "store.not_found", "nothing is left of session " + session.str());
  }
  if (found->damage.empty()) return std::move(*found);
  SPACE_TRY(auto own, core_.collector_state(*access.own));
  std::uint64_t base_generation = 0;
  if (access.base && access.base != access.own) {
    SPACE_TRY(auto base, core_.collector_state(*access.base));
    base_generation = base.record.generation;
  }
  SPACE_CHECK_OK(
      sessions_.rebuild(*access.own, session, found->snapshots, own.record.generation, base_generation));
  return std::move(*found);
}

}  // namespace space::imager::store
