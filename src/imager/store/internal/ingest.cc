// SPDX-License-Identifier: Apache-2.0
#include "imager/store/internal/ingest.h"

#include <algorithm>
#include <cstring>

namespace space::imager::store {
namespace {

constexpr std::uint64_t kMaxMapBytes = 1ull << 50;
constexpr std::size_t kMaxText = 4096;
constexpr std::size_t kMaxDeviceState = 64u << 20;
constexpr std::size_t kMaxPrefetch = 1u << 20;
constexpr std::size_t kJudgedTogether = 128;  // units per piece of parallel work
constexpr std::size_t kMaxNodePackBytes = 8u << 20;

bool is_zero(const std::byte* data, std::size_t bytes) {
  // The first words decide for most; the rest compares the range with itself, one word on.
  return load_le<std::uint64_t>(data) == 0 && std::memcmp(data, data + 8, bytes - 8) == 0;
}

TreeRef in_realm(TreeRef tree, Realm realm) {
  if (tree.root) tree.root->frame.realm = resolve(realm, tree.root->frame.realm);
  return tree;
}

Result<void> check_meta(const SnapshotMeta& meta, ByteView device_state,
                        std::span<const std::uint64_t> prefetch) {
  for (const std::string* text : {&meta.backend, &meta.build, &meta.machine, &meta.cpu_model,
                                  &meta.guest_kernel, &meta.tracker, &meta.name, &meta.extra}) {
    if (text->size() > kMaxText)
      return field_error("meta", "store.too_large", "a text of a snapshot is above 4 KiB");
  }
  if (device_state.size() > kMaxDeviceState) {
    return field_error("device_state", "store.too_large", "device state is above 64 MiB");
  }
  if (prefetch.size() > kMaxPrefetch)
    return field_error("prefetch", "store.too_large", "prefetch list is too long");
  return {};
}

}  // namespace

struct IngestImpl::Judged {
  enum class Verdict : std::uint8_t { kUnchanged, kZero, kContent };
  Verdict verdict{};
  ContentId id{};
  ContentId base_id{};
  UnitRef ref;
};

Result<std::unique_ptr<IngestImpl>> IngestImpl::begin(Core& core, Sessions& sessions, Indexes& indexes,
                                                      const IngestOptions& options) {
  for (auto [bytes, unit] :
       {std::pair{options.memory_bytes, kPageBytes}, {options.disk_bytes, kBlockBytes}}) {
    if (bytes % unit != 0 || bytes > kMaxMapBytes) {
      return field_error("size", "store.bad_size",
                         "map sizes are multiples of 4 KiB (memory) and 64 KiB (disk)");
    }
  }
  std::unique_ptr<IngestImpl> ingest(new IngestImpl(core, sessions, options));
  if (options.reserve_bytes != 0) {
    SPACE_TRY(ingest->reservation_, core.reservations.reserve(options.reserve_bytes));
  }
  SPACE_TRY(ingest->access_, core.access_or_create(options.tenant));
  const Access& access = ingest->access_;
  // The head first, so that the collector, which moves its generation on before it looks for heads, either
  // sees this session or is seen by us.
  SPACE_CHECK_OK(sessions.create(*access.own, options.session));
  ingest->lease_ = core.leases.acquire(options.tenant, LeaseRecord{std::nullopt, core.clock.wall()});
  SPACE_TRY(auto collector, core.collector_state(*access.own));
  ingest->generation_ = collector.record.generation;
  SPACE_TRY(ingest->index_, indexes.get(access.own, collector.record));
  if (access.base && access.base != access.own) {
    SPACE_TRY(auto base_collector, core.collector_state(*access.base));
    ingest->base_generation_ = base_collector.record.generation;
    SPACE_TRY(ingest->base_index_, indexes.get(access.base, base_collector.record));
  }
  if (options.parent) {
    Realm realm = options.parent_is_base ? Realm::kBase : Realm::kOwn;
    SPACE_TRY(auto keys, access.keys(realm));
    SPACE_TRY(auto parent, core.read_root(*keys, *options.parent));
    SPACE_TRY(auto state, sessions.read(*keys, parent.info.session));
    if (!state.history.find(*options.parent)) {
      return make_error(Code::kNotFound, "store.not_found", "there is no snapshot " + options.parent->str());
    }
    ingest->old_trees_ = {in_realm(parent.memory, realm), in_realm(parent.disk, realm)};
    ingest->parent_ = std::move(parent);
  }
  SPACE_TRY(auto state, sessions.read(*access.own, options.session));
  SPACE_CHECK_OK(check_fencing(state.head, options.writer));  // early; the swap decides
  ingest->id_ = core.random.id<SnapshotId>();
  return ingest;
}

IngestImpl::~IngestImpl() {
  clean_up();
}

void IngestImpl::clean_up() {
  if (settled_) return;
  std::lock_guard lock(written_mutex_);
  for (auto name = written_.rbegin(); name != written_.rend(); ++name) {
    core_.objects.remove(*name).ignore("the collector takes what stays");
  }
  written_.clear();
}

Result<std::unique_ptr<Reservation>> IngestImpl::reserve(std::uint64_t bytes) {
  if (reservation_) return std::unique_ptr<Reservation>();
  return core_.reservations.reserve(bytes);
}

Result<void> IngestImpl::put_object(const std::string& name, ByteView bytes) {
  {
    std::lock_guard lock(written_mutex_);
    written_.push_back(name);
  }
  auto put = core_.objects.put(name, std::span(&bytes, 1), blob::Durability::kSynced);
  if (!put.ok() && put.error().reason == "blob.no_space") {
    return make_error(Code::kResourceExhausted, "store.no_space", put.error().message);
  }
  return put;
}

Result<void> IngestImpl::put_pack(PackBuilder& builder, Holds holds) {
  PackId id = builder.id();
  SPACE_TRY(Bytes pack, builder.finish());
  SPACE_CHECK_OK(put_object(pack_name(options_.tenant, id), pack));
  std::lock_guard lock(written_mutex_);
  (holds == Holds::kUnits ? stats_.pack_bytes : stats_.node_bytes) += pack.size();
  if (holds == Holds::kUnits) data_packs_.push_back(id);
  return {};
}

Result<void> IngestImpl::add(MapKind map, std::span<const ChangedUnit> units) {
  if (dead_ || settled_)
    return make_error(Code::kFailedPrecondition, "store.ingest_ended", "this ingest has ended");
  auto added = add_units(map, {units.begin(), units.end()});
  if (!added.ok()) dead_ = true;
  return added;
}

Result<void> IngestImpl::add_units(MapKind map, std::vector<ChangedUnit> units) {
  std::uint64_t count =
      (map == MapKind::kMemory ? options_.memory_bytes : options_.disk_bytes) / unit_bytes(map);
  if (!std::ranges::is_sorted(units, {}, &ChangedUnit::unit))
    std::ranges::sort(units, {}, &ChangedUnit::unit);
  if (!units.empty() && units.back().unit >= count) {
    return field_error("units", "store.out_of_range",
                       fmt::format("unit {} is beyond the map", units.back().unit));
  }
  std::vector<Judged> judged(units.size());
  std::size_t pieces = (units.size() + kJudgedTogether - 1) / kJudgedTogether;
  SPACE_CHECK_OK(core_.workers.for_each(pieces, [&](std::size_t piece) {
    std::size_t first = piece * kJudgedTogether;
    std::size_t size = std::min(kJudgedTogether, units.size() - first);
    return judge(map, std::span(units).subspan(first, size), std::span(judged).subspan(first, size));
  }));

  // Where each content is: known, the same as another of this batch, or to be stored.
  std::vector<std::size_t> chosen;
  std::vector<std::pair<std::size_t, std::size_t>> twins;
  std::unordered_map<ContentId, std::size_t, IdHash> first_of;
  for (std::size_t i = 0; i < units.size(); ++i) {
    Judged& unit = judged[i];
    if (unit.verdict != Judged::Verdict::kContent) continue;
    if (auto known = index_->find(unit.id)) {
      unit.ref = *known;
    } else if (auto own = own_units_.find(unit.id); own != own_units_.end()) {
      unit.ref = own->second;
    } else if (auto base = base_index_ ? base_index_->find(unit.base_id) : std::nullopt) {
      unit.ref = *base;
      unit.ref.frame.realm = Realm::kBase;
    } else if (auto [twin, fresh] = first_of.try_emplace(unit.id, i); !fresh) {
      twins.emplace_back(i, twin->second);
    } else {
      chosen.push_back(i);
      continue;
    }
    ++stats_.deduplicated_units;
  }
  if (!chosen.empty()) {
    std::uint64_t most = chosen.size() * (unit_bytes(map) + 64) + (1u << 20);
    SPACE_TRY(auto held, reserve(most));
    SPACE_CHECK_OK(store_units(map, units, judged, chosen));
    for (std::size_t i : chosen) own_units_.emplace(judged[i].id, judged[i].ref);
  }
  for (auto [twin, original] : twins) judged[twin].ref = judged[original].ref;

  auto& changes = changes_[static_cast<std::size_t>(map)];
  for (std::size_t i = 0; i < units.size(); ++i) {
    ++stats_.offered_units;
    switch (judged[i].verdict) {
      case Judged::Verdict::kUnchanged:
        ++stats_.unchanged_units;
        continue;
      case Judged::Verdict::kZero:
        ++stats_.zero_units;
        changes.emplace_back(units[i].unit, std::nullopt);
        break;
      case Judged::Verdict::kContent:
        changes.emplace_back(units[i].unit, judged[i].ref);
        break;
    }
    changed_bytes_ += unit_bytes(map);
  }
  stats_.stored_units += chosen.size();
  return {};
}

// Hashes and compares with the parent.
Result<void> IngestImpl::judge(MapKind map, std::span<const ChangedUnit> units, std::span<Judged> judged) {
  const TreeRef& tree = old_trees_[static_cast<std::size_t>(map)];
  auto domain = static_cast<std::uint8_t>(domain_of(map));
  Trees::OwnedLeaf leaf;
  std::uint64_t leaf_number = ~std::uint64_t{0};
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (tree.root && units[i].unit / kFanout != leaf_number) {
      leaf_number = units[i].unit / kFanout;
      SPACE_TRY(leaf, core_.trees.leaf(access_, tree, leaf_number));
    }
    std::size_t place = units[i].unit % kFanout;
    // A parent that was larger may have more than this map's units; beyond its own end all is zero.
    bool had = leaf.node && leaf.node->leaf->present[place];
    Judged& out = judged[i];
    if (units[i].data == nullptr || is_zero(units[i].data, unit_bytes(map))) {
      out.verdict = had ? Judged::Verdict::kZero : Judged::Verdict::kUnchanged;
      continue;
    }
    crypto::Digest digest = crypto::sha256({units[i].data, unit_bytes(map)});
    out.id = access_.own->names().content_id(domain, digest);
    Realm was = had ? resolve(leaf.owner, leaf.node->leaf->units[place].frame.realm) : Realm::kOwn;
    if (base_index_ || was == Realm::kBase) {
      SPACE_TRY(auto base, access_.keys(Realm::kBase));
      out.base_id = base->names().content_id(domain, digest);
    }
    bool same = had && leaf.node->leaf->units[place].id == (was == Realm::kOwn ? out.id : out.base_id);
    out.verdict = same ? Judged::Verdict::kUnchanged : Judged::Verdict::kContent;
  }
  return {};
}

// Compresses, seals and writes the chosen units, a pack per piece of work.
Result<void> IngestImpl::store_units(MapKind map, std::span<const ChangedUnit> units,
                                     std::span<Judged> judged, std::span<const std::size_t> chosen) {
  std::size_t size = unit_bytes(map);
  std::size_t per_frame =
      std::clamp<std::size_t>(core_.options.frame_bytes, size, kMaxFramePlainBytes) / size;
  std::size_t per_pack =
      std::clamp<std::size_t>(core_.options.pack_bytes, size * per_frame, 16u << 20) / size;
  std::size_t packs = (chosen.size() + per_pack - 1) / per_pack;
  return core_.workers.for_each(packs, [&](std::size_t number) -> Result<void> {
    auto mine = chosen.subspan(number * per_pack, std::min(per_pack, chosen.size() - number * per_pack));
    SPACE_TRY(auto builder, PackBuilder::start(*access_.own, core_.random, core_.options.compression));
    Bytes plain;
    std::vector<ContentId> ids;
    while (!mine.empty()) {
      auto in_frame = mine.first(std::min(per_frame, mine.size()));
      mine = mine.subspan(in_frame.size());
      plain.clear();
      ids.clear();
      for (std::size_t i : in_frame) {
        plain.insert(plain.end(), units[i].data, units[i].data + size);
        ids.push_back(judged[i].id);
      }
      SPACE_TRY(FrameRef ref, builder.add(FrameKind::kUnits, plain, ids));
      for (std::size_t slot = 0; slot < in_frame.size(); ++slot) {
        judged[in_frame[slot]].ref = {ref, static_cast<std::uint8_t>(slot), ids[slot]};
      }
    }
    return put_pack(builder, Holds::kUnits);
  });
}

Result<void> IngestImpl::flush(std::optional<PackBuilder>& builder, Holds holds) {
  if (!builder || builder->empty()) return {};
  SPACE_CHECK_OK(put_pack(*builder, holds));
  builder.reset();
  return {};
}

Result<NodeRef> IngestImpl::store_node(FrameKind kind, Domain domain, ByteView plain) {
  ContentId id = content_id(*access_.own, domain, plain);
  if (auto found = own_nodes_.find(id); found != own_nodes_.end()) return found->second;
  if (nodes_ && nodes_->bytes() > kMaxNodePackBytes) SPACE_CHECK_OK(flush(nodes_, Holds::kNodes));
  if (!nodes_) {
    SPACE_TRY(nodes_, PackBuilder::start(*access_.own, core_.random, core_.options.compression));
  }
  SPACE_TRY(FrameRef frame, nodes_->add(kind, plain, std::span(&id, 1)));
  NodeRef ref{frame, id};
  own_nodes_.emplace(id, ref);
  return ref;
}

Result<std::vector<UnitRef>> IngestImpl::rewrite(MapKind map, std::span<const UnitRef> units) {
  std::size_t size = unit_bytes(map);
  std::size_t per_frame =
      std::clamp<std::size_t>(core_.options.frame_bytes, size, kMaxFramePlainBytes) / size;
  std::vector<FrameRef> refs;
  for (const UnitRef& unit : units) refs.push_back(unit.frame);
  SPACE_TRY(auto frames, core_.frames.load_many(access_, refs, FrameKind::kUnits));
  if (rewritten_ && rewritten_->bytes() > core_.options.pack_bytes) {
    SPACE_CHECK_OK(flush(rewritten_, Holds::kUnits));
  }
  if (!rewritten_) {
    SPACE_TRY(rewritten_, PackBuilder::start(*access_.own, core_.random, core_.options.compression));
  }
  std::vector<UnitRef> places;
  for (std::size_t first = 0; first < units.size(); first += per_frame) {
    Bytes plain;
    std::vector<ContentId> ids;
    for (std::size_t i = first; i < std::min(units.size(), first + per_frame); ++i) {
      auto content = frames[i]->content(*access_.own, domain_of(map), units[i].slot, size, units[i].id);
      if (!content.ok()) {
        return make_error(Code::kDataLoss, "store.corrupt",
                          fmt::format("{} at byte {}: {}", pack_name(options_.tenant, units[i].frame.pack),
                                      units[i].frame.offset, content.error().message));
      }
      plain.insert(plain.end(), content->begin(), content->end());
      ids.push_back(units[i].id);
    }
    SPACE_TRY(FrameRef frame, rewritten_->add(FrameKind::kUnits, plain, ids));
    for (std::size_t slot = 0; slot < ids.size(); ++slot) {
      places.push_back({frame, static_cast<std::uint8_t>(slot), ids[slot]});
    }
  }
  stats_.rewritten_units += places.size();
  for (const UnitRef& place : places) own_units_.insert_or_assign(place.id, place);
  return places;
}

Result<TreeRef> IngestImpl::edit(MapKind map, std::uint64_t map_bytes) {
  auto index = static_cast<std::size_t>(map);
  auto& changes = changes_[index];
  std::ranges::sort(changes, {}, &TreeEditor::Change::first);
  if (auto twice = std::ranges::adjacent_find(changes, {}, &TreeEditor::Change::first);
      twice != changes.end()) {
    return field_error("units", "store.duplicate_unit",
                       fmt::format("unit {} was offered twice", twice->first));
  }
  TreeEditor editor(core_.trees, access_, core_.options.max_packs_per_leaf,
                    {[this](Bytes plain) { return store_node(FrameKind::kNode, Domain::kNode, plain); },
                     [this, map](std::span<const UnitRef> units) { return rewrite(map, units); }});
  return editor.apply(old_trees_[index], map_bytes / unit_bytes(map), changes);
}

Result<SnapshotInfo> IngestImpl::commit(const SnapshotMeta& meta, ByteView device_state,
                                        std::span<const std::uint64_t> prefetch) {
  if (dead_ || settled_)
    return make_error(Code::kFailedPrecondition, "store.ingest_ended", "this ingest has ended");
  dead_ = true;
  SPACE_CHECK_OK(check_meta(meta, device_state, prefetch));
  std::uint64_t most = (changes_[0].size() + changes_[1].size()) * 512 + 2 * device_state.size() + (2u << 20);
  SPACE_TRY(auto held, reserve(most));
  RootRecord root;
  root.meta = meta;
  root.memory_bytes = options_.memory_bytes;
  root.disk_bytes = options_.disk_bytes;
  SPACE_TRY(root.memory, edit(MapKind::kMemory, options_.memory_bytes));
  SPACE_TRY(root.disk, edit(MapKind::kDisk, options_.disk_bytes));
  root.device_state_bytes = device_state.size();
  for (std::size_t at = 0; at < device_state.size(); at += kMaxFramePlainBytes) {
    ByteView part = device_state.subspan(at, std::min(kMaxFramePlainBytes, device_state.size() - at));
    SPACE_TRY(NodeRef ref, store_node(FrameKind::kBlob, Domain::kBlob, part));
    root.device_state.push_back(ref);
  }
  root.prefetch.assign(prefetch.begin(), prefetch.end());
  root.info.parent = options_.parent;
  root.info.wall_time = meta.wall_time;
  root.info.name = meta.name;
  root.info.held = meta.held;
  SPACE_CHECK_OK(flush(rewritten_, Holds::kUnits));
  SPACE_CHECK_OK(flush(nodes_, Holds::kNodes));
  return publish(root);
}

Result<SnapshotInfo> IngestImpl::commit_fork(const RootRecord& source, Realm source_realm) {
  dead_ = true;
  RootRecord root = source;
  root.memory = in_realm(root.memory, source_realm);
  root.disk = in_realm(root.disk, source_realm);
  for (NodeRef& part : root.device_state) part.frame.realm = resolve(source_realm, part.frame.realm);
  root.info.parent = source.info.id;
  root.info.fork_point = false;
  root.info.name.clear();
  root.meta.name.clear();
  return publish(root);
}

// Root, then head.
Result<SnapshotInfo> IngestImpl::publish(RootRecord& root) {
  root.info.id = id_;
  root.info.session = options_.session;
  root.info.changed_bytes = changed_bytes_;
  root.packs = data_packs_;
  root.info.stored_bytes = stats_.pack_bytes + stats_.node_bytes;
  std::string name = root_name(options_.tenant, id_);
  SPACE_TRY(Bytes object, seal_record(*access_.own, core_.random, ObjectKind::kRoot, name, root));
  SPACE_CHECK_OK(put_object(name, object));
  stats_.node_bytes += object.size();
  auto changed = sessions_.change(
      *access_.own, options_.session,
      [&](HeadRecord& head, const History&) -> Result<void> {
        SPACE_CHECK_OK(check_fencing(head, options_.writer));
        if (head.generation > generation_ || head.base_generation > base_generation_) {
          return make_error(Code::kAborted, "store.generation_old",
                            "the collector ran since this snapshot was begun; offer it again");
        }
        head.changes.push_back({root.info, std::nullopt});
        return {};
      },
      Sessions::Again::kForbidden);
  if (!changed.ok() && changed.error().reason == "store.overtaken") {
    // Others have written on. If their history has this snapshot, it is committed; else leave all where it
    // is.
    settled_ = true;
    auto now = sessions_.read(*access_.own, options_.session);
    if (!now.ok() || !now->history.find(id_)) {
      return make_error(Code::kUnavailable, "store.uncertain", changed.error().message);
    }
    changed = std::move(now);
  }
  if (!changed.ok()) {
    settled_ = changed.error().reason == "store.uncertain";
    Error error = std::move(changed).error();
    if (error.reason == "blob.no_space") {
      error = make_error(Code::kResourceExhausted, "store.no_space", error.message);
    }
    if (!settled_) clean_up();
    return error;
  }
  settled_ = true;
  for (const auto& [id, unit] : own_units_) index_->insert(unit);
  return root.info;
}

}  // namespace space::imager::store
