// SPDX-License-Identifier: Apache-2.0
#include "imager/store/testing/harness.h"

#include <algorithm>
#include <random>

#include "lib/base/check.h"
#include "lib/crypto/aead.h"

namespace space::imager::store::testing {
namespace {

crypto::Digest wrapping_key(const TenantId& tenant, std::uint8_t epoch) {
  return crypto::sha256(as_bytes("test wrapping key of " + tenant.str() + std::to_string(epoch)));
}

}  // namespace

Result<void> MemoryKeys::usable(const TenantId& tenant) {
  if (!revoked_[tenant]) return {};
  return make_error(Code::kPermissionDenied, "store.key_unavailable", "the tenant's key is revoked");
}

Result<Bytes> MemoryKeys::wrap(const TenantId& tenant, const crypto::SecretBytes& key) {
  std::lock_guard lock(mutex_);
  SPACE_CHECK_OK(usable(tenant));
  crypto::Nonce nonce;
  random_.fill(nonce);
  SPACE_TRY(Bytes sealed,
            crypto::seal_once(wrapping_key(tenant, epoch_), nonce, as_bytes(tenant.str()), key.view()));
  Bytes wrapped{std::byte{epoch_}};
  wrapped.insert(wrapped.end(), nonce.begin(), nonce.end());
  wrapped.insert(wrapped.end(), sealed.begin(), sealed.end());
  return wrapped;
}

Result<GeneratedKey> MemoryKeys::generate(const TenantId& tenant) {
  crypto::SecretBytes key(crypto::kKeyBytes);
  {
    std::lock_guard lock(mutex_);
    random_.fill(key.writable());
  }
  SPACE_TRY(Bytes wrapped, wrap(tenant, key));
  return GeneratedKey{std::move(key), std::move(wrapped)};
}

Result<crypto::SecretBytes> MemoryKeys::unwrap(const TenantId& tenant, ByteView wrapped) {
  std::lock_guard lock(mutex_);
  SPACE_CHECK_OK(usable(tenant));
  ++unwraps_;
  if (wrapped.size() < 1 + crypto::kNonceBytes) {
    return make_error(Code::kPermissionDenied, "store.key_unavailable", "not a wrapped key");
  }
  crypto::Nonce nonce;
  std::copy_n(wrapped.begin() + 1, nonce.size(), nonce.begin());
  auto key = crypto::open_once(wrapping_key(tenant, static_cast<std::uint8_t>(wrapped[0])), nonce,
                               as_bytes(tenant.str()), wrapped.subspan(1 + nonce.size()));
  if (!key.ok())
    return make_error(Code::kPermissionDenied, "store.key_unavailable", "not a key of this tenant");
  return crypto::SecretBytes::copy_of(*key);
}

StoreOptions small_options() {
  StoreOptions options;
  options.workers = 2;
  options.cache_bytes = 4u << 20;
  options.node_cache_bytes = 8u << 20;
  options.dedupe_entries = 1u << 14;
  options.keep_free_bytes = 0;
  options.gc_grace = std::chrono::seconds(0);
  return options;
}

Harness::Harness(std::uint64_t seed, StoreOptions options_in)
    : random(seed), names(seed + 3), keys(seed + 1), files(seed + 2, &clock), options(options_in) {
  reopen();
}

void Harness::reopen() {
  store.reset();
  objects.reset();
  auto opened = blob::open_dir_store(files, names);
  SPACE_CHECK(opened.ok());
  objects = std::move(opened).value();
  store = open_store(*objects, keys, random, clock, options);
}

void Harness::crash() {
  store.reset();
  objects.reset();
  files.crash_and_reboot();
  reopen();
}

Bytes page_of(std::uint64_t tag, std::uint32_t bytes) {
  Bytes page(bytes);
  std::mt19937_64 random(tag);
  for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
    // Half of the words repeat, so that there is something to compress.
    store_le(page.data() + i, i % 16 == 0 ? tag * 0x9e3779b97f4a7c15ull + 1 : std::uint64_t{random() >> 24});
  }
  return page;
}

Bytes random_page(std::uint64_t seed, std::uint32_t bytes) {
  Bytes page(bytes);
  os::SeededRandom(seed).fill(page);
  return page;
}

IngestOptions ingest_options(const SessionId& session, std::optional<SnapshotId> parent) {
  IngestOptions options;
  options.tenant = kTenant;
  options.session = session;
  options.parent = std::move(parent);
  options.memory_bytes = kMemoryBytes;
  options.disk_bytes = kDiskBytes;
  return options;
}

SnapshotMeta meta_at(WallTime time, std::string name) {
  SnapshotMeta meta;
  meta.wall_time = time;
  meta.backend = "fake";
  meta.name = std::move(name);
  return meta;
}

Result<SnapshotInfo> take(Store& store, const IngestOptions& options, const std::vector<Change>& changes,
                          const SnapshotMeta& meta, ByteView device_state) {
  SPACE_TRY(auto ingest, store.begin_ingest(options));
  for (MapKind map : {MapKind::kMemory, MapKind::kDisk}) {
    std::vector<ChangedUnit> units;
    for (const Change& change : changes) {
      if (change.map == map)
        units.push_back({change.unit, change.content ? change.content->data() : nullptr});
    }
    if (!units.empty()) SPACE_CHECK_OK(ingest->add(map, units));
  }
  return ingest->commit(meta, device_state);
}

Result<Bytes> read_map(Store& store, const TenantId& tenant, const SnapshotId& snapshot, MapKind map) {
  SPACE_TRY(auto opened, store.open(tenant, snapshot));
  Bytes content(opened->map(map).size_bytes());
  SPACE_CHECK_OK(opened->map(map).read(0, content));
  return content;
}

Bytes expected_map(const Model& model, MapKind map, std::uint64_t bytes) {
  Bytes content(bytes);
  for (const auto& [unit, data] : model) {
    std::copy(data.begin(), data.end(),
              content.begin() + static_cast<std::ptrdiff_t>(unit * unit_bytes(map)));
  }
  return content;
}

SessionId session_named(char letter) {
  return SessionId(std::string(20, letter));
}

}  // namespace space::imager::store::testing
