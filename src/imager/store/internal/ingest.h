// SPDX-License-Identifier: Apache-2.0
#pragma once
// A snapshot in the making: compare, deduplicate, pack; then trees, root, head. See store.h for the contract.
//
// Order of writes: data packs as units arrive; at commit the rewritten units' pack, the node pack, the root,
// the head. Until the head is swapped nothing refers to any of it, and a dropped ingest removes what it
// wrote.

#include "imager/store/internal/indexes.h"

namespace space::imager::store {

class IngestImpl final : public Ingest {
 public:
  static Result<std::unique_ptr<IngestImpl>> begin(Core& core, Sessions& sessions, Indexes& indexes,
                                                   const IngestOptions& options);
  ~IngestImpl() override;

  Result<void> add(MapKind map, std::span<const ChangedUnit> units) override;
  Result<SnapshotInfo> commit(const SnapshotMeta& meta, ByteView device_state,
                              std::span<const std::uint64_t> prefetch) override;
  [[nodiscard]] const SnapshotId& id() const override { return id_; }
  [[nodiscard]] const IngestStats& stats() const override { return stats_; }

  // A snapshot that shares everything with `source`, a root of `source_realm`; instead of add().
  Result<SnapshotInfo> commit_fork(const RootRecord& source, Realm source_realm);

 private:
  struct Judged;  // what became of one offered unit
  IngestImpl(Core& core, Sessions& sessions, IngestOptions options)
      : core_(core), sessions_(sessions), options_(std::move(options)) {}
  Result<void> add_units(MapKind map, std::vector<ChangedUnit> units);
  Result<void> judge(MapKind map, std::span<const ChangedUnit> units, std::span<Judged> judged);
  Result<void> store_units(MapKind map, std::span<const ChangedUnit> units, std::span<Judged> judged,
                           std::span<const std::size_t> chosen);
  enum class Holds : std::uint8_t { kUnits, kNodes };
  Result<void> put_pack(PackBuilder& builder, Holds holds);
  Result<void> put_object(const std::string& name, ByteView bytes);
  Result<std::unique_ptr<Reservation>> reserve(std::uint64_t bytes);
  Result<void> flush(std::optional<PackBuilder>& builder, Holds holds);
  Result<NodeRef> store_node(FrameKind kind, Domain domain, ByteView plain);
  Result<std::vector<UnitRef>> rewrite(MapKind map, std::span<const UnitRef> units);
  Result<TreeRef> edit(MapKind map, std::uint64_t map_bytes);
  Result<SnapshotInfo> publish(RootRecord& root);
  void clean_up();

  Core& core_;
  Sessions& sessions_;
  const IngestOptions options_;
  Access access_;
  SnapshotId id_;
  std::optional<RootRecord> parent_;
  std::uint64_t generation_ = 0;
  std::uint64_t base_generation_ = 0;
  std::shared_ptr<DedupeIndex> index_;       // shared with the tenant's other ingests
  std::shared_ptr<DedupeIndex> base_index_;  // null without base images
  std::unique_ptr<Leases::Lease> lease_;
  std::unique_ptr<Reservation> reservation_;
  std::array<TreeRef, kMapKinds> old_trees_;
  std::array<std::vector<TreeEditor::Change>, kMapKinds> changes_;
  std::optional<PackBuilder> nodes_;
  std::optional<PackBuilder> rewritten_;
  std::unordered_map<ContentId, NodeRef, IdHash> own_nodes_;  // written by this ingest
  // Stored by this ingest; in the common index only once committed, since a dropped ingest takes its packs
  // along.
  std::unordered_map<ContentId, UnitRef, IdHash> own_units_;
  std::mutex written_mutex_;  // guards the two below and stats_ while packs are written
  std::vector<PackId> data_packs_;
  std::vector<std::string> written_;  // objects to remove when this is dropped
  IngestStats stats_;
  std::uint64_t changed_bytes_ = 0;
  bool dead_ = false;
  bool settled_ = false;  // committed, or perhaps committed: remove nothing
};

}  // namespace space::imager::store
