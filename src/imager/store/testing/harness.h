// SPDX-License-Identifier: Apache-2.0
#pragma once
// What tests of the store share: keys in memory, a store on a disk that can fail, and a model of what it
// should hold.

#include <map>
#include <memory>

#include "imager/store/store.h"
#include "lib/blob/dir_store.h"
#include "lib/blob/fault/fault_file_system.h"

namespace space::imager::store::testing {

// Wraps by sealing under a key of its own; can be told to revoke a tenant or not to answer.
class MemoryKeys final : public KeyProvider {
 public:
  explicit MemoryKeys(std::uint64_t seed) : random_(seed) {}
  Result<GeneratedKey> generate(const TenantId& tenant) override;
  Result<Bytes> wrap(const TenantId& tenant, const crypto::SecretBytes& key) override;
  Result<crypto::SecretBytes> unwrap(const TenantId& tenant, ByteView wrapped) override;

  void revoke(const TenantId& tenant) { revoked_[tenant] = true; }
  void restore(const TenantId& tenant) { revoked_[tenant] = false; }
  void rotate() { ++epoch_; }
  [[nodiscard]] std::size_t unwraps() const { return unwraps_; }

 private:
  Result<void> usable(const TenantId& tenant);
  std::mutex mutex_;
  os::SeededRandom random_;
  std::map<TenantId, bool> revoked_;
  std::uint8_t epoch_ = 0;
  std::size_t unwraps_ = 0;
};

// A sparse map as the model sees it: unit -> content; absent = zeros.
using Model = std::map<std::uint64_t, Bytes>;

inline const TenantId kTenant{"tenanttenanttenant00"};
inline const TenantId kOther{"othertenantother0000"};

StoreOptions small_options();

// A store on a FaultFileSystem. reopen() makes a new one over what the disk holds.
class Harness {
 public:
  explicit Harness(std::uint64_t seed = 1, StoreOptions options = small_options());
  void reopen();
  // Power failure and a new process.
  void crash();
  void advance(std::chrono::seconds by) { clock.advance(by); }

  SimulatedClock clock;
  os::SeededRandom random;
  os::SeededRandom names;  // of temporary files
  MemoryKeys keys;
  blob::FaultFileSystem files;
  StoreOptions options;
  std::unique_ptr<blob::ObjectStore> objects;
  std::unique_ptr<Store> store;
};

// Page contents that compress about like a guest's: text-like, determined by `tag`.
Bytes page_of(std::uint64_t tag, std::uint32_t bytes = kPageBytes);
Bytes random_page(std::uint64_t seed, std::uint32_t bytes = kPageBytes);

struct Change {
  MapKind map = MapKind::kMemory;
  std::uint64_t unit = 0;
  std::optional<Bytes> content;  // none = zeros
};

inline constexpr std::uint64_t kMemoryBytes = 4u << 20;
inline constexpr std::uint64_t kDiskBytes = 1u << 20;

IngestOptions ingest_options(const SessionId& session, std::optional<SnapshotId> parent);
SnapshotMeta meta_at(WallTime time, std::string name = {});
// One whole ingest.
Result<SnapshotInfo> take(Store& store, const IngestOptions& options, const std::vector<Change>& changes,
                          const SnapshotMeta& meta = {}, ByteView device_state = {});
// A whole map.
Result<Bytes> read_map(Store& store, const TenantId& tenant, const SnapshotId& snapshot, MapKind map);
Bytes expected_map(const Model& model, MapKind map, std::uint64_t bytes);

SessionId session_named(char letter);

}  // namespace space::imager::store::testing
