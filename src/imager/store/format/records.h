// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is inside the small sealed objects. FORMAT.md section 5. Pure. Posture: hostile (the disk).
//
// Every record begins with its version; a reader refuses versions that it doesn't know.

#include "imager/store/format/codec.h"
#include "imager/store/format/node.h"

namespace space::imager::store {

inline constexpr std::uint16_t kRecordVersion = 1;

template <class A>
void fields(A& a, SnapshotInfo& info) {
  a(info.id);
  a(info.session);
  a(info.parent);
  a(info.wall_time);
  a(info.name);
  a(info.fork_point);
  a(info.held);
  a(info.stored_bytes);
  a(info.changed_bytes);
}

template <class A>
void fields(A& a, SnapshotMeta& meta) {
  a(meta.wall_time);
  a(meta.monotonic_ns);
  a(meta.backend);
  a(meta.build);
  a(meta.machine);
  a(meta.cpu_model);
  a(meta.guest_kernel);
  a(meta.daemon_protocol);
  a(meta.tracker);
  a(meta.held);
  a(meta.name);
  a(meta.extra);
}

template <class A>
void check_version(A& a) {
  std::uint16_t version = kRecordVersion;
  a(version);
  if constexpr (A::kReads) {
    if (version != kRecordVersion) a.fail("record of an unknown version");
  }
}

struct RootRecord {
  SnapshotInfo info;
  SnapshotMeta meta;
  std::uint64_t memory_bytes = 0;
  std::uint64_t disk_bytes = 0;
  TreeRef memory;
  TreeRef disk;
  std::uint64_t device_state_bytes = 0;
  std::vector<NodeRef> device_state;  // blob frames in order
  std::vector<std::uint64_t> prefetch;
  std::vector<PackId> packs;  // data packs that this snapshot's ingest wrote

  [[nodiscard]] const TreeRef& tree(MapKind map) const { return map == MapKind::kMemory ? memory : disk; }
};
template <class A>
void fields(A& a, RootRecord& root) {
  check_version(a);
  a(root.info);
  a(root.meta);
  a(root.memory_bytes);
  a(root.disk_bytes);
  a(root.memory);
  a(root.disk);
  a(root.device_state_bytes);
  a(root.device_state);
  a(root.prefetch);
  a(root.packs);
  if constexpr (A::kReads) {
    bool fits = root.memory.unit_count == root.memory_bytes / kPageBytes &&
                root.disk.unit_count == root.disk_bytes / kBlockBytes;
    auto sound = [](const FrameRef& ref) {
      return ref.realm <= Realm::kBase && ref.stored <= kMaxFrameStoredBytes;
    };
    for (const TreeRef* tree : {&root.memory, &root.disk}) {
      if (tree->root && !sound(tree->root->frame)) fits = false;
    }
    for (const NodeRef& part : root.device_state) {
      if (!sound(part.frame)) fits = false;
    }
    if (!fits) a.fail("root record makes no sense");
  }
}

// One change of a history since its last checkpoint.
struct HistoryChange {
  std::optional<SnapshotInfo> put;  // added, or replaced where it stands
  std::optional<SnapshotId> removed;
};
template <class A>
void fields(A& a, HistoryChange& change) {
  a(change.put);
  a(change.removed);
}

struct HeadRecord {
  SessionId session;
  std::uint64_t generation = 0;       // of the tenant's collector: older writers are refused
  std::uint64_t base_generation = 0;  // of the base images' collector
  std::uint64_t fencing_token = 0;
  bool deleted = false;    // a tombstone
  std::string checkpoint;  // hex part of a history object's name; empty = none
  std::vector<HistoryChange> changes;
};
template <class A>
void fields(A& a, HeadRecord& head) {
  check_version(a);
  a(head.session);
  a(head.generation);
  a(head.base_generation);
  a(head.fencing_token);
  a(head.deleted);
  a(head.checkpoint);
  a(head.changes);
}

// The whole history at one time, oldest first.
struct HistoryRecord {
  std::vector<SnapshotInfo> snapshots;
};
template <class A>
void fields(A& a, HistoryRecord& history) {
  check_version(a);
  a(history.snapshots);
}

struct CollectorRecord {
  std::uint64_t generation = 0;
  std::string owner;  // of the lease; empty = free
  WallTime lease_until{};
  WallTime doomed_at{};
  bool fenced = false;              // every session's head names `generation`
  std::vector<std::string> doomed;  // full names
};
template <class A>
void fields(A& a, CollectorRecord& record) {
  check_version(a);
  a(record.generation);
  a(record.owner);
  a(record.lease_until);
  a(record.doomed_at);
  a(record.fenced);
  a(record.doomed);
}

struct LeaseRecord {
  std::optional<SnapshotId> snapshot;  // of a reader
  WallTime since{};                    // of a writer: nothing written from here on is garbage
};
template <class A>
void fields(A& a, LeaseRecord& lease) {
  check_version(a);
  a(lease.snapshot);
  a(lease.since);
}

struct PrefetchRecord {
  std::vector<std::uint64_t> pages;
};
template <class A>
void fields(A& a, PrefetchRecord& record) {
  check_version(a);
  a(record.pages);
}

}  // namespace space::imager::store
