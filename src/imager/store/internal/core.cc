// SPDX-License-Identifier: Apache-2.0
#include "imager/store/internal/core.h"

#include <algorithm>
#include <charconv>

namespace space::imager::store {

std::optional<PackId> parse_pack_id(std::string_view hex) {
  PackId id;
  if (hex.size() != id.bytes.size() * 2) return std::nullopt;
  for (std::size_t i = 0; i < id.bytes.size(); ++i) {
    unsigned value = 0;
    auto [end, error] = std::from_chars(hex.data() + 2 * i, hex.data() + 2 * i + 2, value, 16);
    if (error != std::errc() || end != hex.data() + 2 * i + 2) return std::nullopt;
    id.bytes[i] = static_cast<std::byte>(value);
  }
  if (id.hex() != hex) return std::nullopt;  // upper case
  return id;
}

class Reservations::Held final : public Reservation {
 public:
  Held(Reservations& owner, std::uint64_t bytes) : owner_(owner), bytes_(bytes) {}
  ~Held() override {
    std::lock_guard lock(owner_.mutex_);
    owner_.reserved_ -= bytes_;
  }

 private:
  Reservations& owner_;
  std::uint64_t bytes_;
};

Result<std::unique_ptr<Reservation>> Reservations::reserve(std::uint64_t bytes) {
  SPACE_TRY(std::uint64_t free, objects_.free_bytes());
  std::lock_guard lock(mutex_);
  std::uint64_t taken = reserved_ + keep_free_;
  if (free < taken || free - taken < bytes) {
    return make_error(
        Code::kResourceExhausted, "store.no_space",
        fmt::format("the snapshot store needs {} bytes and has {} to give; free space or remove snapshots",
                    bytes, free < taken ? 0 : free - taken));
  }
  reserved_ += bytes;
  return std::unique_ptr<Reservation>(std::make_unique<Held>(*this, bytes));
}

Result<std::string> Leases::write(const Held& held) {
  SPACE_TRY(auto keys, core_.rings.get(held.tenant));
  auto expiry = (core_.clock.wall() + core_.options.lease_ttl).time_since_epoch().count();
  std::string name = fmt::format("{}/{}.{}", leases_folder(held.tenant), held.id, expiry);
  SPACE_TRY(Bytes object, seal_record(*keys, core_.random, ObjectKind::kLease, name, held.record));
  ByteView part = object;
  // Not synced: whoever a power failure ends needs no lease any more.
  auto put = core_.objects.put(name, std::span(&part, 1), blob::Durability::kBuffered);
  if (!put.ok() && put.error().reason != "blob.exists") return std::move(put).error();
  return name;
}

std::unique_ptr<Leases::Lease> Leases::acquire(const TenantId& tenant, const LeaseRecord& record) {
  Held held{tenant, core_.random.id_text(), record, {}};
  if (auto name = write(held); name.ok()) held.object = *name;
  std::lock_guard lock(mutex_);
  std::uint64_t number = next_++;
  held_.emplace(number, std::move(held));
  return std::make_unique<Lease>(*this, number);
}

void Leases::release(std::uint64_t number) {
  std::string object;
  {
    std::lock_guard lock(mutex_);
    auto found = held_.find(number);
    object = found->second.object;
    held_.erase(found);
  }
  if (!object.empty()) core_.objects.remove(object).ignore("it expires");
}

Result<void> Leases::renew() {
  std::vector<std::pair<std::uint64_t, Held>> all;
  {
    std::lock_guard lock(mutex_);
    all.assign(held_.begin(), held_.end());
  }
  Result<void> outcome;
  for (auto& [number, held] : all) {
    auto name = write(held);
    if (!name.ok()) {
      outcome = std::move(name).error();  // go on with the others
      continue;
    }
    std::string stale = *name;
    {
      std::lock_guard lock(mutex_);
      auto found = held_.find(number);
      if (found != held_.end()) stale = std::exchange(found->second.object, *name);
      if (stale == *name && found != held_.end()) continue;  // the clock stood still
    }
    if (!stale.empty()) core_.objects.remove(stale).ignore("it expires");
  }
  return outcome;
}

Result<std::vector<LeaseRecord>> Leases::active(const TenantId& tenant) {
  SPACE_TRY(auto keys, core_.rings.get(tenant));
  SPACE_TRY(auto objects, core_.objects.list(leases_folder(tenant)));
  std::vector<LeaseRecord> records;
  for (const auto& object : objects) {
    std::string name = base_name(object.name);
    std::int64_t expiry = 0;
    auto dot = name.find('.');
    if (dot == std::string::npos) continue;
    std::from_chars(name.data() + dot + 1, name.data() + name.size(), expiry);
    if (WallTime(std::chrono::microseconds(expiry)) < core_.clock.wall()) {
      core_.objects.remove(object.name).ignore("the next run tries again");
      continue;
    }
    auto bytes = core_.objects.get(object.name, kMaxSealedBytes);
    if (!bytes.ok()) {
      if (bytes.error().reason == "blob.not_found") continue;
      return std::move(bytes).error();
    }
    auto record = open_record<LeaseRecord>(*keys, ObjectKind::kLease, object.name, *bytes);
    // A lease that was torn by a power failure has no holder any more, but one that rotted may: it counts as
    // a writer's.
    records.push_back(record.ok() ? *record : LeaseRecord{std::nullopt, object.modified});
  }
  std::lock_guard lock(mutex_);
  for (const auto& [number, held] : held_) {
    if (held.tenant == tenant) records.push_back(held.record);
  }
  return records;
}

Core::Core(blob::ObjectStore& objects_in, KeyProvider& keys, os::Random& random_in, const Clock& clock_in,
           const StoreOptions& options_in)
    : objects(objects_in),
      clock(clock_in),
      options(options_in),
      random(random_in),
      rings(objects, keys, random, clock, options.key_ttl),
      frames(objects, options.cache_bytes),
      trees(frames, options.node_cache_bytes),
      workers(std::max(1u, options.workers)),
      reservations(objects, options.keep_free_bytes),
      leases(*this) {}

Result<Access> Core::with_base(std::shared_ptr<const Keys> own) {
  if (own->tenant() == kBaseTenant) return Access{own, own, {}};
  auto base = rings.get(kBaseTenant);
  if (base.ok()) return Access{std::move(own), std::move(base).value(), {}};
  return Access{std::move(own), nullptr, std::move(base).error()};
}

Result<Access> Core::access(const TenantId& tenant) {
  auto own = rings.get(tenant);
  if (!own.ok()) {
    if (own.error().code == Code::kPermissionDenied) drop(tenant);
    return std::move(own).error();
  }
  return with_base(std::move(own).value());
}

Result<Access> Core::access_or_create(const TenantId& tenant) {
  SPACE_TRY(auto own, rings.get_or_create(tenant));
  return with_base(std::move(own));
}

Result<Core::CollectorState> Core::collector_state(const Keys& keys) {
  std::string name = gc_name(keys.tenant());
  SPACE_TRY(auto versions, objects.head_versions(name));
  if (versions.empty()) return CollectorState{};
  if (versions.back() > 1 && !std::ranges::binary_search(versions, versions.back() - 1)) {
    // Two are always kept: an older generation must not pass for the present one.
    SPACE_TRY(auto again, objects.head_versions(name));
    if (again == versions) {
      return make_error(Code::kDataLoss, "store.missing", name + ": a version was taken away");
    }
  }
  SPACE_TRY(auto head, objects.read_head(name));
  if (!head) return CollectorState{};
  std::string version_name = fmt::format("{}/{}", name, head->version);
  SPACE_TRY(auto record,
            open_record<CollectorRecord>(keys, ObjectKind::kCollector, version_name, head->bytes));
  return CollectorState{std::move(record), head->version};
}

Result<RootRecord> Core::read_root(const Keys& keys, const SnapshotId& snapshot) {
  std::string name = root_name(keys.tenant(), snapshot);
  auto bytes = objects.get(name, kMaxSealedBytes);
  if (!bytes.ok()) {
    if (bytes.error().reason == "blob.not_found") {
      return make_error(Code::kNotFound, "store.not_found", name + " is missing");
    }
    return std::move(bytes).error();
  }
  SPACE_TRY(auto root, open_record<RootRecord>(keys, ObjectKind::kRoot, name, *bytes));
  if (root.info.id != snapshot)
    return make_error(Code::kDataLoss, "store.corrupt", name + ": is another snapshot's");
  return root;
}

void Core::drop(const TenantId& tenant) {
  rings.drop(tenant);
  frames.drop(tenant);
  trees.drop(tenant);
}

}  // namespace space::imager::store
