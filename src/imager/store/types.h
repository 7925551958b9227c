// SPDX-License-Identifier: Apache-2.0
#pragma once
// The values that travel through the store's interface. Plain data.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/base/clock.h"
#include "lib/base/id.h"
#include "lib/crypto/hash.h"

namespace space::imager::store {

// Published base images are the sessions of this tenant; every tenant may read and build on them.
inline const TenantId kBaseTenant{"spacebaseimages00000"};

enum class MapKind : std::uint8_t { kMemory = 0, kDisk = 1 };
inline constexpr std::size_t kMapKinds = 2;
// The unit of a map: what is compared, named and found. 4 KiB pages of memory, 64 KiB blocks of a disk.
inline constexpr std::uint32_t kPageBytes = 4u << 10;
inline constexpr std::uint32_t kBlockBytes = 64u << 10;
constexpr std::uint32_t unit_bytes(MapKind map) {
  return map == MapKind::kMemory ? kPageBytes : kBlockBytes;
}

// Keyed hash of a unit's or tree node's plain bytes, under the tenant's (or the base images') id key.
using ContentId = crypto::ContentId;

// One page or block and what it now holds; `data` points to unit_bytes() bytes, or is null for zeros.
struct ChangedUnit {
  std::uint64_t unit = 0;
  const std::byte* data = nullptr;
};

// What the node tells about a cut. Strings are at most 4 KiB each.
struct SnapshotMeta {
  WallTime wall_time{};
  std::uint64_t monotonic_ns = 0;
  std::string backend;  // "qemu"
  std::string build;    // exact build of the VMM
  std::string machine;  // machine type and its relevant options
  std::string cpu_model;
  std::string guest_kernel;
  std::uint32_t daemon_protocol = 0;
  std::string tracker;  // how changed pages were found
  bool held = true;     // user space was held at the cut: may be forked
  std::string name;     // given by a person; named snapshots are never thinned
  std::string extra;    // JSON of the caller, stored as it is
};

// A line of a session's history: what listing and retention need, kept in the head.
struct SnapshotInfo {
  SnapshotId id;
  SessionId session;
  std::optional<SnapshotId> parent;  // may be another session's, or a base image's
  WallTime wall_time{};
  std::string name;
  bool fork_point = false;  // another session was made from it
  bool held = true;
  std::uint64_t stored_bytes = 0;   // bytes that this snapshot added to the store, sealed
  std::uint64_t changed_bytes = 0;  // bytes of the units that differed from the parent
};

// The whole root record, for restore.
struct SnapshotRecord {
  TenantId tenant;
  SnapshotInfo info;
  SnapshotMeta meta;
  std::uint64_t memory_bytes = 0;
  std::uint64_t disk_bytes = 0;
  std::uint64_t device_state_bytes = 0;
  std::vector<std::uint64_t> prefetch;  // pages to load first, in order
  std::string key_id;                   // hex; the data key that seals the record
};

struct IngestStats {
  std::uint64_t offered_units = 0;
  std::uint64_t unchanged_units = 0;  // equal to the parent after all
  std::uint64_t zero_units = 0;
  std::uint64_t deduplicated_units = 0;
  std::uint64_t stored_units = 0;
  std::uint64_t rewritten_units = 0;  // old units moved to bound fragmentation
  std::uint64_t pack_bytes = 0;       // of data packs, sealed
  std::uint64_t node_bytes = 0;       // of tree nodes, device state and records, sealed
};

// One thing that is wrong with the store. `object` is the name of the object, with an offset when part of it.
struct Damage {
  enum class Kind : std::uint8_t { kMissing, kCorrupt, kUnreadable };
  Kind kind{};
  std::string object;
  std::string detail;
  std::optional<SessionId> session;
  std::vector<SnapshotId> snapshots;  // that cannot be restored because of it, at most kMaxNamedSnapshots
};
inline constexpr std::size_t kMaxNamedSnapshots = 16;

struct CheckReport {
  std::vector<Damage> damage;             // empty = clean
  std::vector<std::string> unreferenced;  // objects without references: left for the collector, not an error
  std::uint64_t snapshots = 0;
  std::uint64_t objects = 0;
  std::uint64_t verified_units = 0;
  std::uint64_t verified_bytes = 0;
};

struct GcReport {
  std::uint64_t generation = 0;
  std::uint64_t live_packs = 0;
  std::uint64_t doomed_objects = 0;  // will go in the next run after the grace
  std::uint64_t deleted_objects = 0;
  std::uint64_t deleted_bytes = 0;
  std::uint64_t kept_by_lease = 0;
};

struct StoreStat {
  std::uint64_t sessions = 0;
  std::uint64_t snapshots = 0;
  std::uint64_t packs = 0;
  std::uint64_t pack_bytes = 0;
  std::uint64_t record_objects = 0;
  std::uint64_t record_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t dedupe_entries = 0;
  std::uint64_t cached_bytes = 0;
  std::uint64_t gc_generation = 0;
};

// What recover() found of one session.
struct RecoveredSession {
  TenantId tenant;
  SessionId session;
  std::vector<SnapshotInfo> snapshots;  // oldest first
  // Not from the head but from root records on their own: the head is damaged or missing.
  bool from_roots_alone = false;
  std::vector<Damage> damage;
};

}  // namespace space::imager::store
