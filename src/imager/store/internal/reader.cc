// SPDX-License-Identifier: Apache-2.0
#include "imager/store/internal/reader.h"

#include <algorithm>
#include <cstring>

namespace space::imager::store {
namespace {

constexpr std::uint64_t kPieceBytes = 1u << 20;
constexpr std::size_t kMaxPrefetched = 256;  // units whose frames are loaded together

Error wrong_content(const Access& access, const UnitRef& unit, const Error& cause) {
  auto keys = access.keys(unit.frame.realm);
  return make_error(Code::kDataLoss, "store.corrupt",
                    fmt::format("{} at byte {}: {}", pack_name((*keys)->tenant(), unit.frame.pack),
                                unit.frame.offset, cause.message));
}

}  // namespace

Result<void> MapReaderImpl::read(std::uint64_t first, std::span<std::byte> out) {
  std::uint64_t unit = unit_bytes();
  if (out.size() % unit != 0 || first > tree_.unit_count || out.size() / unit > tree_.unit_count - first) {
    return make_error(Code::kInvalidArgument, "store.out_of_range", "range is not within the map");
  }
  auto access = core_.access(tenant_);
  Result<void> done;
  if (!access.ok()) {
    done = std::move(access).error();
  } else {
    // Cut where leaves and megabytes end, so that pieces don't share leaves more than they must.
    std::uint64_t per_piece = std::min<std::uint64_t>(kFanout, kPieceBytes / unit);
    std::uint64_t first_piece = first / per_piece;
    std::uint64_t end = first + out.size() / unit;
    std::uint64_t pieces = out.empty() ? 0 : (end + per_piece - 1) / per_piece - first_piece;
    done = core_.workers.for_each(pieces, [&](std::size_t i) {
      std::uint64_t from = std::max(first, (first_piece + i) * per_piece);
      std::uint64_t to = std::min(end, (first_piece + i + 1) * per_piece);
      return read_piece(*access, from, out.subspan((from - first) * unit, (to - from) * unit));
    });
  }
  if (!done.ok()) std::ranges::fill(out, std::byte{0});
  return done;
}

Result<void> MapReaderImpl::read_piece(const Access& access, std::uint64_t first, std::span<std::byte> out) {
  std::size_t size = unit_bytes();
  std::size_t count = out.size() / size;
  SPACE_TRY(auto leaf, core_.trees.leaf(access, tree_, first / kFanout));
  if (!leaf.node) {
    std::ranges::fill(out, std::byte{0});
    return {};
  }
  std::vector<UnitRef> units;
  std::vector<std::size_t> places;
  std::vector<FrameRef> refs;  // distinct neighbours
  std::vector<std::size_t> frame_of;
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t place = (first + i) % kFanout;
    if (!leaf.node->leaf->present[place]) {
      std::ranges::fill(out.subspan(i * size, size), std::byte{0});
      continue;
    }
    UnitRef unit = leaf.node->leaf->units[place];
    unit.frame.realm = resolve(leaf.owner, unit.frame.realm);
    if (refs.empty() || refs.back() != unit.frame) refs.push_back(unit.frame);
    units.push_back(unit);
    places.push_back(i);
    frame_of.push_back(refs.size() - 1);
  }
  SPACE_TRY(auto frames, core_.frames.load_many(access, refs, FrameKind::kUnits));
  for (std::size_t i = 0; i < units.size(); ++i) {
    SPACE_TRY(auto keys, access.keys(units[i].frame.realm));
    auto content = frames[frame_of[i]]->content(*keys, domain_of(kind_), units[i].slot, size, units[i].id);
    if (!content.ok()) return wrong_content(access, units[i], content.error());
    std::memcpy(out.data() + places[i] * size, content->data(), size);
  }
  return {};
}

Result<std::vector<std::uint64_t>> MapReaderImpl::stored_units(std::uint64_t first, std::uint64_t count) {
  std::uint64_t end =
      count > tree_.unit_count - std::min(first, tree_.unit_count) ? tree_.unit_count : first + count;
  SPACE_TRY(auto access, core_.access(tenant_));
  std::vector<std::uint64_t> stored;
  std::optional<Error> failure;
  Trees::Visitor visitor;
  visitor.enter = [&](const NodeRef&, std::uint64_t) { return Trees::Visit::kDescend; };
  visitor.node = [&](const NodeRef&, const TreeNode& node, std::uint64_t at) -> Result<void> {
    for (std::size_t i = 0; node.leaf && i < kFanout; ++i) {
      if (node.leaf->present[i] && at + i >= first && at + i < end) stored.push_back(at + i);
    }
    return {};
  };
  visitor.damaged = [](const NodeRef&, const Error& error) -> Result<void> { return error; };
  if (first == 0 && end == tree_.unit_count) {
    SPACE_CHECK_OK(core_.trees.walk(access, tree_, visitor));
    return stored;
  }
  for (std::uint64_t number = first / kFanout; number * kFanout < end; ++number) {
    SPACE_TRY(auto leaf, core_.trees.leaf(access, tree_, number));
    if (leaf.node) SPACE_CHECK_OK(visitor.node({}, *leaf.node, number * kFanout));
  }
  return stored;
}

Result<std::vector<std::uint64_t>> MapReaderImpl::differing(std::span<const ChangedUnit> units) {
  SPACE_TRY(auto access, core_.access(tenant_));
  std::mutex mutex;
  std::vector<std::uint64_t> different;
  Bytes zeros(unit_bytes());
  constexpr std::size_t kPiece = 256;
  SPACE_CHECK_OK(
      core_.workers.for_each((units.size() + kPiece - 1) / kPiece, [&](std::size_t piece) -> Result<void> {
        std::vector<std::uint64_t> mine;
        for (const ChangedUnit& unit :
             units.subspan(piece * kPiece, std::min(kPiece, units.size() - piece * kPiece))) {
          if (unit.unit >= tree_.unit_count) {
            return make_error(Code::kInvalidArgument, "store.out_of_range", "unit is beyond the map");
          }
          SPACE_TRY(auto known, core_.trees.find(access, tree_, unit.unit));
          bool zero = unit.data == nullptr || std::memcmp(unit.data, zeros.data(), zeros.size()) == 0;
          if (zero || !known) {
            if (zero == known.has_value()) mine.push_back(unit.unit);
            continue;
          }
          SPACE_TRY(auto keys, access.keys(known->frame.realm));
          if (content_id(*keys, domain_of(kind_), {unit.data, unit_bytes()}) != known->id)
            mine.push_back(unit.unit);
        }
        std::lock_guard lock(mutex);
        different.insert(different.end(), mine.begin(), mine.end());
        return {};
      }));
  std::ranges::sort(different);
  return different;
}

Result<void> MapReaderImpl::prefetch(std::span<const std::uint64_t> units) {
  SPACE_TRY(auto access, core_.access(tenant_));
  return core_.workers.for_each(
      (units.size() + kMaxPrefetched - 1) / kMaxPrefetched, [&](std::size_t i) -> Result<void> {
        auto mine =
            units.subspan(i * kMaxPrefetched, std::min(kMaxPrefetched, units.size() - i * kMaxPrefetched));
        std::vector<FrameRef> refs;
        for (std::uint64_t unit : mine) {
          SPACE_TRY(auto ref, core_.trees.find(access, tree_, unit));
          if (ref && (refs.empty() || refs.back() != ref->frame)) refs.push_back(ref->frame);
        }
        SPACE_CHECK_OK(core_.frames.load_many(access, refs, FrameKind::kUnits));
        return {};
      });
}

Result<Bytes> read_blob(Core& core, const Access& access, std::span<const NodeRef> parts,
                        std::uint64_t bytes) {
  Bytes blob;
  for (const NodeRef& part : parts) {
    SPACE_TRY(FramePtr frame, core.frames.load(access, part.frame, FrameKind::kBlob));
    SPACE_TRY(auto keys, access.keys(part.frame.realm));
    auto content = frame->content(*keys, Domain::kBlob, 0, frame->plain().size(), part.id);
    if (!content.ok()) return wrong_content(access, UnitRef{part.frame, 0, part.id}, content.error());
    blob.insert(blob.end(), content->begin(), content->end());
  }
  if (blob.size() != bytes) {
    return make_error(Code::kDataLoss, "store.corrupt", "device state has another length than its root says");
  }
  return blob;
}

SnapshotRecord to_record(const TenantId& tenant, const RootRecord& root) {
  SnapshotRecord record;
  record.tenant = tenant;
  record.info = root.info;
  record.meta = root.meta;
  record.memory_bytes = root.memory_bytes;
  record.disk_bytes = root.disk_bytes;
  record.device_state_bytes = root.device_state_bytes;
  record.prefetch = root.prefetch;
  return record;
}

Result<RootRecord> read_listed_root(Core& core, Sessions& sessions, const Keys& keys,
                                    const SnapshotId& snapshot) {
  SPACE_TRY(auto root, core.read_root(keys, snapshot));
  SPACE_TRY(auto state, sessions.read(keys, root.info.session));
  auto info = state.history.find(snapshot);
  if (!info) return make_error(Code::kNotFound, "store.not_found", "there is no snapshot " + snapshot.str());
  root.info = *info;  // name and marks may have changed since
  root.meta.name = info->name;
  if (root.prefetch.empty()) {
    std::string name = prefetch_name(keys.tenant(), snapshot);
    auto bytes = core.objects.get(name, kMaxSealedBytes);
    if (bytes.ok()) {
      auto record = open_record<PrefetchRecord>(keys, ObjectKind::kPrefetch, name, *bytes);
      if (record.ok()) root.prefetch = std::move(record->pages);  // a help only: check() names a damaged one
    }
  }
  return root;
}

OpenSnapshotImpl::OpenSnapshotImpl(Core& core, const TenantId& tenant, RootRecord root,
                                   std::unique_ptr<Leases::Lease> lease)
    : core_(core),
      root_(std::move(root)),
      lease_(std::move(lease)),
      record_(to_record(tenant, root_)),
      memory_(core, tenant, MapKind::kMemory, root_.memory),
      disk_(core, tenant, MapKind::kDisk, root_.disk) {}

Result<std::shared_ptr<OpenSnapshotImpl>> OpenSnapshotImpl::open(Core& core, Sessions& sessions,
                                                                 const TenantId& tenant,
                                                                 const SnapshotId& snapshot) {
  SPACE_TRY(auto access, core.access(tenant));
  // The lease before the look: what is listed after that can only be deleted by a collector that sees the
  // lease.
  auto lease = core.leases.acquire(tenant, LeaseRecord{snapshot, {}});
  SPACE_TRY(auto root, read_listed_root(core, sessions, *access.own, snapshot));
  auto opened = std::make_shared<OpenSnapshotImpl>(core, tenant, std::move(root), std::move(lease));
  auto raw = core.objects.get(root_name(tenant, snapshot), kMaxSealedBytes);
  if (raw.ok()) opened->record_.key_id = key_id_of(*raw);
  return opened;
}

Result<Bytes> OpenSnapshotImpl::device_state() {
  SPACE_TRY(auto access, core_.access(record_.tenant));
  return read_blob(core_, access, root_.device_state, root_.device_state_bytes);
}

}  // namespace space::imager::store
