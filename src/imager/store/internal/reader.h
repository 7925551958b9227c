// SPDX-License-Identifier: Apache-2.0
#pragma once
// Snapshots held open and their maps. See store.h for the contract.

#include "imager/store/internal/sessions.h"

namespace space::imager::store {

class MapReaderImpl final : public MapReader {
 public:
  MapReaderImpl(Core& core, TenantId tenant, MapKind kind, TreeRef tree)
      : core_(core), tenant_(std::move(tenant)), kind_(kind), tree_(std::move(tree)) {}
  [[nodiscard]] std::uint64_t size_bytes() const override { return tree_.unit_count * unit_bytes(); }
  [[nodiscard]] std::uint32_t unit_bytes() const override { return store::unit_bytes(kind_); }
  Result<void> read(std::uint64_t first, std::span<std::byte> out) override;
  Result<std::vector<std::uint64_t>> stored_units(std::uint64_t first, std::uint64_t count) override;
  Result<std::vector<std::uint64_t>> differing(std::span<const ChangedUnit> units) override;
  Result<void> prefetch(std::span<const std::uint64_t> units) override;

 private:
  // At most one leaf's units, and about a megabyte.
  Result<void> read_piece(const Access& access, std::uint64_t first, std::span<std::byte> out);
  Core& core_;
  const TenantId tenant_;
  const MapKind kind_;
  const TreeRef tree_;
};

class OpenSnapshotImpl final : public OpenSnapshot {
 public:
  // Errors: store.not_found unless the snapshot is in its session's history.
  static Result<std::shared_ptr<OpenSnapshotImpl>> open(Core& core, Sessions& sessions,
                                                        const TenantId& tenant, const SnapshotId& snapshot);
  [[nodiscard]] const SnapshotRecord& record() const override { return record_; }
  [[nodiscard]] MapReader& map(MapKind map) override { return map == MapKind::kMemory ? memory_ : disk_; }
  Result<Bytes> device_state() override;

  OpenSnapshotImpl(Core& core, const TenantId& tenant, RootRecord root, std::unique_ptr<Leases::Lease> lease);

 private:
  Core& core_;
  const RootRecord root_;
  std::unique_ptr<Leases::Lease> lease_;
  SnapshotRecord record_;
  MapReaderImpl memory_;
  MapReaderImpl disk_;
};

// Blob frames put together. Errors: store.corrupt, store.missing.
Result<Bytes> read_blob(Core& core, const Access& access, std::span<const NodeRef> parts,
                        std::uint64_t bytes);
// The root of a snapshot that is in its session's history, with what the history says of it.
Result<RootRecord> read_listed_root(Core& core, Sessions& sessions, const Keys& keys,
                                    const SnapshotId& snapshot);
SnapshotRecord to_record(const TenantId& tenant, const RootRecord& root);

}  // namespace space::imager::store
