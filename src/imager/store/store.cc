// SPDX-License-Identifier: Apache-2.0
#include "imager/store/store.h"

#include <algorithm>

#include "imager/store/format/export.h"
#include "imager/store/internal/check.h"
#include "imager/store/internal/ingest.h"
#include "imager/store/internal/reader.h"

namespace space::imager::store {
namespace {

// Puts the parts together; each call is a few lines here and the work elsewhere.
class StoreImpl final : public Store {
 private:
  // Scrubbing goes through caches of its own: what was read before may have rotted since.
  template <class Work>
  auto scrub(const Work& work) {
    Core fresh(core_.objects, provider_, core_.random, core_.clock, core_.options);
    Sessions sessions(fresh);
    Checker checker(fresh, sessions);
    return work(checker);
  }

 public:
  StoreImpl(blob::ObjectStore& objects, KeyProvider& keys, os::Random& random, const Clock& clock,
            const StoreOptions& options)
      : provider_(keys),
        core_(objects, keys, random, clock, options),
        sessions_(core_),
        indexes_(core_, sessions_),
        collector_(core_, sessions_) {}

  Result<std::unique_ptr<Ingest>> begin_ingest(const IngestOptions& options) override {
    SPACE_TRY(auto ingest, IngestImpl::begin(core_, sessions_, indexes_, options));
    return std::unique_ptr<Ingest>(std::move(ingest));
  }

  Result<std::unique_ptr<Reservation>> reserve(std::uint64_t bytes) override {
    return core_.reservations.reserve(bytes);
  }

  Result<SnapshotInfo> fork(const TenantId& tenant, const SnapshotId& source, const SessionId& session,
                            const WriterOptions& writer) override {
    SPACE_TRY(auto access, core_.access_or_create(tenant));
    Realm realm = Realm::kOwn;
    auto root = read_listed_root(core_, sessions_, *access.own, source);
    if (!root.ok() && root.error().code == Code::kNotFound && access.base && access.base != access.own) {
      realm = Realm::kBase;
      root = read_listed_root(core_, sessions_, *access.base, source);
    }
    if (!root.ok()) return std::move(root).error();
    auto existing = sessions_.read(*access.own, session, Sessions::Tombstones::kShown);
    if (existing.ok() && (existing->head.deleted || !existing->history.all().empty())) {
      return make_error(Code::kAlreadyExists, "store.session_exists", "session " + session.str() + " exists");
    }
    if (!existing.ok() && existing.error().code != Code::kNotFound) return std::move(existing).error();
    // The mark first: a fork point is never thinned, and a mark too many does no harm.
    SPACE_TRY(auto owner, access.keys(realm));
    if (!root->info.fork_point) {
      SPACE_CHECK_OK(
          sessions_.change(*owner, root->info.session, [&](HeadRecord& head, const History& history) {
            return update(head, history, source, [](SnapshotInfo& info) { info.fork_point = true; });
          }));
    }
    IngestOptions options;
    options.tenant = tenant;
    options.session = session;
    options.parent = source;
    options.parent_is_base = realm == Realm::kBase;
    options.memory_bytes = root->memory_bytes;
    options.disk_bytes = root->disk_bytes;
    options.writer = writer;
    SPACE_TRY(auto ingest, IngestImpl::begin(core_, sessions_, indexes_, options));
    return ingest->commit_fork(*root, realm);
  }

  Result<void> rename(const TenantId& tenant, const SnapshotId& snapshot, const std::string& name,
                      const WriterOptions& writer) override {
    if (name.size() > 4096)
      return field_error("name", "store.too_large", "the name of a snapshot is above 4 KiB");
    SPACE_TRY(auto access, core_.access(tenant));
    SPACE_TRY(auto root, core_.read_root(*access.own, snapshot));
    SPACE_CHECK_OK(sessions_.change(
        *access.own, root.info.session, [&](HeadRecord& head, const History& history) -> Result<void> {
          SPACE_CHECK_OK(check_fencing(head, writer));
          return update(head, history, snapshot, [&](SnapshotInfo& info) { info.name = name; });
        }));
    return {};
  }

  Result<void> set_prefetch(const TenantId& tenant, const SnapshotId& snapshot,
                            std::span<const std::uint64_t> pages) override {
    if (pages.size() > (1u << 20))
      return field_error("pages", "store.too_large", "prefetch list is too long");
    SPACE_TRY(auto access, core_.access(tenant));
    SPACE_CHECK_OK(read_listed_root(core_, sessions_, *access.own, snapshot));
    std::string name = prefetch_name(tenant, snapshot);
    PrefetchRecord record{{pages.begin(), pages.end()}};
    SPACE_TRY(Bytes object, seal_record(*access.own, core_.random, ObjectKind::kPrefetch, name, record));
    ByteView part = object;
    auto put = core_.objects.put(name, std::span(&part, 1), blob::Durability::kSynced);
    if (!put.ok() && put.error().reason != "blob.exists") return put;
    return {};
  }

  Result<void> remove(const TenantId& tenant, const SessionId& session, std::span<const SnapshotId> snapshots,
                      const WriterOptions& writer) override {
    SPACE_TRY(auto access, core_.access(tenant));
    // A batch per head, so that a head stays small whatever is asked for.
    while (!snapshots.empty()) {
      auto batch = snapshots.first(std::min<std::size_t>(snapshots.size(), 1024));
      snapshots = snapshots.subspan(batch.size());
      SPACE_CHECK_OK(sessions_.change(*access.own, session,
                                      [&](HeadRecord& head, const History& history) -> Result<void> {
                                        SPACE_CHECK_OK(check_fencing(head, writer));
                                        for (const SnapshotId& id : batch) {
                                          if (history.find(id)) head.changes.push_back({std::nullopt, id});
                                        }
                                        return {};
                                      }));
    }
    return {};
  }

  Result<void> remove_session(const TenantId& tenant, const SessionId& session,
                              const WriterOptions& writer) override {
    SPACE_TRY(auto access, core_.access(tenant));
    SPACE_CHECK_OK(
        sessions_.change(*access.own, session, [&](HeadRecord& head, const History&) -> Result<void> {
          SPACE_CHECK_OK(check_fencing(head, writer));
          head.deleted = true;
          head.checkpoint.clear();
          head.changes.clear();
          return {};
        }));
    return {};
  }

  Result<std::vector<SessionId>> sessions(const TenantId& tenant) override {
    auto access = core_.access(tenant);
    if (!access.ok()) {
      if (access.error().code == Code::kNotFound) return std::vector<SessionId>();
      return std::move(access).error();
    }
    SPACE_TRY(auto all, sessions_.list(tenant));
    std::vector<SessionId> living;
    for (const SessionId& session : all) {
      auto state = sessions_.read(*access->own, session);
      if (!state.ok() && state.error().code == Code::kNotFound) continue;
      living.push_back(session);  // a damaged one is listed: it exists
    }
    return living;
  }

  Result<std::vector<SnapshotInfo>> list(const TenantId& tenant, const SessionId& session) override {
    SPACE_TRY(auto access, core_.access(tenant));
    SPACE_TRY(auto state, sessions_.read(*access.own, session));
    return state.history.all();
  }

  Result<SnapshotRecord> find(const TenantId& tenant, const SnapshotId& snapshot) override {
    SPACE_TRY(auto access, core_.access(tenant));
    SPACE_TRY(auto root, read_listed_root(core_, sessions_, *access.own, snapshot));
    return to_record(tenant, root);
  }

  Result<std::shared_ptr<OpenSnapshot>> open(const TenantId& tenant, const SnapshotId& snapshot) override {
    SPACE_TRY(auto opened, OpenSnapshotImpl::open(core_, sessions_, tenant, snapshot));
    return std::shared_ptr<OpenSnapshot>(std::move(opened));
  }

  Result<CheckReport> verify(const TenantId& tenant, const SnapshotId& snapshot) override {
    return scrub([&](Checker& checker) { return checker.verify(tenant, snapshot); });
  }
  Result<Intact> newest_intact(const TenantId& tenant, const SessionId& session, CheckDepth depth) override {
    return scrub([&](Checker& checker) { return checker.newest_intact(tenant, session, depth); });
  }
  Result<GcReport> collect(const TenantId& tenant) override { return collector_.step(tenant); }
  Result<CheckReport> check(CheckDepth depth) override {
    return scrub([&](Checker& checker) { return checker.check(depth); });
  }
  Result<std::vector<TenantId>> tenants() override { return list_tenants(core_.objects); }
  Result<std::vector<RecoveredSession>> recover() override {
    return scrub([](Checker& checker) { return checker.recover(); });
  }
  Result<RecoveredSession> repair(const TenantId& tenant, const SessionId& session) override {
    return scrub([&](Checker& checker) { return checker.repair(tenant, session); });
  }
  Result<void> renew_leases() override { return core_.leases.renew(); }

  Result<StoreStat> stat() override {
    StoreStat stat;
    SPACE_TRY(auto all, list_tenants(core_.objects));
    for (const TenantId& tenant : all) {
      SPACE_TRY(auto packs, core_.objects.list(packs_folder(tenant)));
      stat.packs += packs.size();
      for (const auto& pack : packs) stat.pack_bytes += pack.bytes;
      for (const std::string& folder :
           {roots_folder(tenant), history_folder(tenant), prefetch_folder(tenant)}) {
        SPACE_TRY(auto objects, core_.objects.list(folder));
        stat.record_objects += objects.size();
        for (const auto& object : objects) stat.record_bytes += object.bytes;
      }
      auto living = sessions(tenant);
      if (!living.ok()) continue;  // its key is away: sizes are known all the same
      stat.sessions += living->size();
      for (const SessionId& session : *living) {
        auto listed = list(tenant, session);
        if (listed.ok()) stat.snapshots += listed->size();
      }
      auto keys = core_.rings.get(tenant);
      auto collector = keys.ok() ? core_.collector_state(**keys) : Result<Core::CollectorState>(keys.error());
      if (collector.ok()) stat.gc_generation = std::max(stat.gc_generation, collector->record.generation);
    }
    SPACE_TRY(stat.free_bytes, core_.objects.free_bytes());
    stat.reserved_bytes = core_.reservations.reserved();
    stat.dedupe_entries = indexes_.entries();
    stat.cached_bytes = core_.frames.cached_bytes();
    return stat;
  }

  void drop_keys(const TenantId& tenant) override {
    indexes_.drop(tenant);
    core_.drop(tenant);
  }
  Result<void> rewrap_keys(const TenantId& tenant) override { return core_.rings.rewrap(tenant); }
  Result<void> new_data_key(const TenantId& tenant) override { return core_.rings.add_sealing_key(tenant); }

  Result<void> export_snapshot(const TenantId& tenant, const SnapshotId& snapshot,
                               const crypto::SecretBytes& key, const Sink& sink) override {
    SPACE_TRY(auto opened, open(tenant, snapshot));
    return write_export(core_.random, *opened, key, sink);
  }

  Result<SnapshotInfo> import_snapshot(const TenantId& tenant, const SessionId& session,
                                       const crypto::SecretBytes& key, const Source& source,
                                       const WriterOptions& writer) override {
    return read_export(key, source, [&](std::uint64_t memory_bytes, std::uint64_t disk_bytes) {
      IngestOptions options;
      options.tenant = tenant;
      options.session = session;
      options.memory_bytes = memory_bytes;
      options.disk_bytes = disk_bytes;
      options.writer = writer;
      return begin_ingest(options);
    });
  }

 private:
  static Result<void> update(HeadRecord& head, const History& history, const SnapshotId& snapshot,
                             const std::function<void(SnapshotInfo&)>& change) {
    auto info = history.find(snapshot);
    if (!info)
      return make_error(Code::kNotFound, "store.not_found", "there is no snapshot " + snapshot.str());
    change(*info);
    head.changes.push_back({std::move(info), std::nullopt});
    return {};
  }

  KeyProvider& provider_;
  Core core_;
  Sessions sessions_;
  Indexes indexes_;
  Collector collector_;
};

}  // namespace

std::unique_ptr<Store> open_store(blob::ObjectStore& objects, KeyProvider& keys, os::Random& random,
                                  const Clock& clock, const StoreOptions& options) {
  return std::make_unique<StoreImpl>(objects, keys, random, clock, options);
}

}  // namespace space::imager::store
