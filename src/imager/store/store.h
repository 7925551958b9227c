// SPDX-License-Identifier: Apache-2.0
#pragma once
// The encrypted snapshot store: memory, disk and device state of sandboxes, cut together, for ever readable.
//
// A snapshot is one immutable root record over two persistent maps (memory pages, disk blocks) and a
// device-state blob. Maps are radix trees whose nodes and units live, compressed and sealed, in immutable
// packs. A snapshot stores only what its tenant has not stored yet; a fork is a new root on the same trees; a
// restore never walks parents.
//
// Promises
//   * A read returns exactly the bytes that were given, or an error. Never other bytes, never zeros instead.
//   * When commit() has returned, the snapshot survives process and power failure; before, it is invisible.
//   * A failed ingest (no space, dead key, lost race) leaves every other snapshot as it was.
//   * Whoever has the store but not the tenant's key learns sizes, times and random ids, nothing of the
//   contents,
//     not even whether two tenants store the same; a changed byte anywhere is found before it is used.
//   * The cost of ingest, restore and lookup doesn't depend on how many snapshots there are.
// Not here: when to take or drop snapshots (src/model/retention.h decides), serving files (imager/files), the
// network.
//
// Sessions are made by their first ingest. Every change of a session swaps its head by compare-and-set and is
// refused when the writer's fencing token is older than the head's (store.fenced) or when the collector ran
// since the ingest began (store.generation_old: retryable, offer the units again).
//
// Resource types. All calls block on disk and keys; run them on a pool. All of Store is thread-safe; one
// Ingest belongs to one thread at a time; a MapReader may be used by many. Posture: internal, and hostile
// towards the disk.
//
// Errors of most calls: store.not_found; store.key_unavailable, store.key_unreachable (key_provider.h);
// store.corrupt and store.missing (data_loss; the message begins with the object's name); store.no_space
// (resource_exhausted); blob.io (internal or unavailable, from the disk).

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "imager/store/key_provider.h"
#include "imager/store/types.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/blob/object_store.h"
#include "lib/os/random.h"

namespace space::imager::store {

enum class Compression : std::uint8_t { kNone = 0, kZstd1 = 1, kLz4 = 2 };

struct StoreOptions {
  Compression compression = Compression::kZstd1;
  unsigned workers = 2;                   // threads that hash, compress, seal and open, the caller's included
  std::uint32_t frame_bytes = 64u << 10;  // of plain units, 4 KiB to 64 KiB
  std::uint64_t pack_bytes = 8u << 20;    // of plain units, at most 16 MiB
  std::uint64_t cache_bytes = 64u << 20;  // opened frames
  std::uint64_t node_cache_bytes = 64u << 20;  // decoded tree nodes
  std::size_t dedupe_entries = 1u << 20;       // per tenant in use, about 48 bytes each
  std::uint64_t keep_free_bytes = 256u << 20;  // never reserved
  // Distinct packs that one leaf (256 units: 1 MiB of memory) may name; over it, the pack with the fewest
  // units there is rewritten. A 2 MiB region thus touches at most twice as many. Tree nodes are bounded in
  // the same way.
  std::uint32_t max_packs_per_leaf = 8;
  std::chrono::seconds key_ttl{60};     // a data key is unwrapped anew after this
  std::chrono::seconds gc_grace{3600};  // age before an unreferenced object may go, and between the phases
  std::chrono::seconds lease_ttl{600};  // of readers, writers and the collector; see renew_leases()
};

// What a writer states about itself.
struct WriterOptions {
  std::uint64_t fencing_token = 0;  // of the node's lease on the session; grows with each holder
};

struct IngestOptions {
  TenantId tenant;
  SessionId session;
  // The snapshot whose maps are changed: of the same tenant (any session) or of kBaseTenant. None = all
  // zeros.
  std::optional<SnapshotId> parent;
  // Present when the parent belongs to kBaseTenant.
  bool parent_is_base = false;
  std::uint64_t memory_bytes =
      0;  // size of the maps; multiples of the unit, at most 1 PiB. May differ from the parent's
  std::uint64_t disk_bytes = 0;
  WriterOptions writer;
  // Bytes to reserve before anything is written; 0 = as batches arrive. store.no_space then comes from
  // begin_ingest().
  std::uint64_t reserve_bytes = 0;
};

// A snapshot in the making. Dropping it without commit() removes what it wrote.
class Ingest {
 public:
  virtual ~Ingest() = default;
  // Compares with the parent, deduplicates, compresses, seals and stores; returns when `units` may be reused.
  // A unit must not be offered twice in one ingest (store.duplicate_unit). Units beyond the map:
  // store.out_of_range. After an error the ingest is dead.
  virtual Result<void> add(MapKind map, std::span<const ChangedUnit> units) = 0;
  // Stores trees, device state and root, then swaps the head. At most once.
  // Errors: store.fenced, store.generation_old, store.conflict (both retryable from begin_ingest()), and
  // store.uncertain when the disk failed inside the swap: look with find() before trying again.
  virtual Result<SnapshotInfo> commit(const SnapshotMeta& meta, ByteView device_state,
                                      std::span<const std::uint64_t> prefetch = {}) = 0;
  [[nodiscard]] virtual const SnapshotId& id() const = 0;
  [[nodiscard]] virtual const IngestStats& stats() const = 0;
};

// One map of one snapshot. Verified reads through a bounded cache; one load per frame however many ask for
// it.
class MapReader {
 public:
  virtual ~MapReader() = default;
  [[nodiscard]] virtual std::uint64_t size_bytes() const = 0;
  [[nodiscard]] virtual std::uint32_t unit_bytes() const = 0;
  // Fills `out` (a multiple of the unit) from unit `first` on. On error `out` is zeroed and must not be used.
  virtual Result<void> read(std::uint64_t first, std::span<std::byte> out) = 0;
  // Units in [first, first + count) that hold anything but zeros, ascending; loads no data.
  virtual Result<std::vector<std::uint64_t>> stored_units(std::uint64_t first, std::uint64_t count) = 0;
  // Units among `units` whose bytes differ from the snapshot's, by keyed hash: the judge of a page tracker.
  virtual Result<std::vector<std::uint64_t>> differing(std::span<const ChangedUnit> units) = 0;
  // Loads the frames of `units` into the cache, in order of their place on disk.
  virtual Result<void> prefetch(std::span<const std::uint64_t> units) = 0;
};

// A snapshot held open: its data isn't collected while this lives and leases are renewed.
class OpenSnapshot {
 public:
  virtual ~OpenSnapshot() = default;
  [[nodiscard]] virtual const SnapshotRecord& record() const = 0;
  [[nodiscard]] virtual MapReader& map(MapKind map) = 0;
  virtual Result<Bytes> device_state() = 0;
};

// Bytes of disk set aside; given back when it ends.
class Reservation {
 public:
  virtual ~Reservation() = default;
};

enum class CheckDepth : std::uint8_t { kRecords, kTrees, kEverything };

class Store {
 public:
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // --- writing
  virtual Result<std::unique_ptr<Ingest>> begin_ingest(const IngestOptions& options) = 0;
  // Space for a snapshot, before the guest is paused. Errors: store.no_space.
  virtual Result<std::unique_ptr<Reservation>> reserve(std::uint64_t bytes) = 0;
  // A new session (must not exist: store.session_exists) whose first snapshot is `source`, sharing all its
  // data. The source, of the same tenant or of kBaseTenant, is marked as a fork point. Cost: one root record
  // and two head swaps.
  virtual Result<SnapshotInfo> fork(const TenantId& tenant, const SnapshotId& source,
                                    const SessionId& session, const WriterOptions& writer) = 0;
  // Gives a snapshot a name, or takes it away (empty).
  virtual Result<void> rename(const TenantId& tenant, const SnapshotId& snapshot, const std::string& name,
                              const WriterOptions& writer) = 0;
  // Stores the pages that a restore touched first. Once; a second list is ignored.
  virtual Result<void> set_prefetch(const TenantId& tenant, const SnapshotId& snapshot,
                                    std::span<const std::uint64_t> pages) = 0;
  // Takes snapshots out of a session's history at once; the collector frees their space later. Unknown ids
  // are fine.
  virtual Result<void> remove(const TenantId& tenant, const SessionId& session,
                              std::span<const SnapshotId> snapshots, const WriterOptions& writer) = 0;
  // Ends a session: its snapshots go, and no writer can bring it back.
  virtual Result<void> remove_session(const TenantId& tenant, const SessionId& session,
                                      const WriterOptions& writer) = 0;

  // --- reading
  virtual Result<std::vector<SessionId>> sessions(const TenantId& tenant) = 0;
  // Oldest first.
  virtual Result<std::vector<SnapshotInfo>> list(const TenantId& tenant, const SessionId& session) = 0;
  virtual Result<SnapshotRecord> find(const TenantId& tenant, const SnapshotId& snapshot) = 0;
  virtual Result<std::shared_ptr<OpenSnapshot>> open(const TenantId& tenant, const SnapshotId& snapshot) = 0;
  // Reads everything of one snapshot; the report names what is damaged.
  virtual Result<CheckReport> verify(const TenantId& tenant, const SnapshotId& snapshot) = 0;
  // The newest snapshot of a session whose trees (or everything, as `depth` says) are intact, and what was
  // passed over.
  struct Intact {
    SnapshotInfo snapshot;
    std::vector<Damage> passed_over;
  };
  virtual Result<Intact> newest_intact(const TenantId& tenant, const SessionId& session,
                                       CheckDepth depth) = 0;

  // --- care
  // One step of the collector for one tenant: deletes what the step before doomed, dooms what is unreferenced
  // now. Errors: store.gc_busy (another holds the lease), store.gc_blocked (damage: nothing is deleted, the
  // message names it).
  virtual Result<GcReport> collect(const TenantId& tenant) = 0;
  virtual Result<CheckReport> check(CheckDepth depth) = 0;
  virtual Result<StoreStat> stat() = 0;
  virtual Result<std::vector<TenantId>> tenants() = 0;
  // Sessions and snapshots of all tenants from nothing but the store, damaged ones included as far as they
  // can be read.
  virtual Result<std::vector<RecoveredSession>> recover() = 0;
  // Gives a session whose head is damaged or missing a new one, from its roots that can be read. Snapshots
  // that were removed but not yet collected may come back. A healthy session stays as it is.
  virtual Result<RecoveredSession> repair(const TenantId& tenant, const SessionId& session) = 0;
  // To be called about every lease_ttl / 3 while snapshots are open or ingests run.
  virtual Result<void> renew_leases() = 0;

  // --- keys
  // Forgets the tenant's keys and everything opened with them, at once; the next use asks the provider again.
  virtual void drop_keys(const TenantId& tenant) = 0;
  // Wraps the tenant's data keys anew (after a rotation of the wrapping key); no data is rewritten.
  virtual Result<void> rewrap_keys(const TenantId& tenant) = 0;
  // New packs and records are sealed under a fresh data key from now on.
  virtual Result<void> new_data_key(const TenantId& tenant) = 0;

  // --- moving
  // Receives consecutive pieces of a file.
  using Sink = std::function<Result<void>(ByteView)>;
  // Fills the span from the front; 0 = end.
  using Source = std::function<Result<std::size_t>(std::span<std::byte>)>;
  // One sealed file with everything of a snapshot, under `key` (32 bytes, shared with the receiver).
  virtual Result<void> export_snapshot(const TenantId& tenant, const SnapshotId& snapshot,
                                       const crypto::SecretBytes& key, const Sink& sink) = 0;
  // The snapshot becomes the newest of `session` (made when absent), with a new id. Nothing is visible unless
  // the file was authentic to its end (store.import_invalid).
  virtual Result<SnapshotInfo> import_snapshot(const TenantId& tenant, const SessionId& session,
                                               const crypto::SecretBytes& key, const Source& source,
                                               const WriterOptions& writer) = 0;

 protected:
  Store() = default;
};

// All arguments must outlive the store. Reads nothing yet: a store is open at once whatever its size.
std::unique_ptr<Store> open_store(blob::ObjectStore& objects, KeyProvider& keys, os::Random& random,
                                  const Clock& clock, const StoreOptions& options = {});

}  // namespace space::imager::store
