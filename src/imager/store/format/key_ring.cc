// SPDX-License-Identifier: Apache-2.0
#include "imager/store/format/key_ring.h"

#include <algorithm>
#include <functional>

#include "imager/store/format/codec.h"

namespace space::imager::store {
namespace {

constexpr std::array<std::byte, 8> kRingMagic = {std::byte{'S'}, std::byte{'P'}, std::byte{'C'},
                                                 std::byte{'R'}, std::byte{'I'}, std::byte{'N'},
                                                 std::byte{'G'}, std::byte{'1'}};
constexpr std::size_t kMaxRingKeys = 4096;
constexpr std::uint8_t kNames = 0;
constexpr std::uint8_t kSeals = 1;
// How long "there are no base images" is believed while another process may publish some.
constexpr std::chrono::seconds kNothingTtl{1};

Error nothing() {
  return make_error(Code::kNotFound, "store.not_found", "the store has nothing of this tenant");
}

}  // namespace

template <class A>
void fields(A& a, RingRecord::Entry& entry) {
  a(entry.id);
  a(entry.purpose);
  a(entry.wrapped);
}

Bytes encode_ring(const RingRecord& ring) {
  Encoder encoder;
  encoder.raw(kRingMagic);
  encoder(ring.entries);
  Bytes bytes = encoder.take();
  // Against rot; against thieves every entry is authenticated by its wrapping.
  crypto::Digest digest = crypto::sha256(bytes);
  bytes.insert(bytes.end(), digest.begin(), digest.end());
  return bytes;
}

Result<RingRecord> decode_ring(ByteView bytes) {
  auto malformed = [](const char* why) { return make_error(Code::kDataLoss, "store.malformed", why); };
  if (bytes.size() < kRingMagic.size() + crypto::kDigestBytes) return malformed("key ring is too short");
  ByteView body = bytes.first(bytes.size() - crypto::kDigestBytes);
  if (!std::ranges::equal(crypto::sha256(body), bytes.last(crypto::kDigestBytes))) {
    return malformed("key ring doesn't match its checksum");
  }
  Decoder decoder(body);
  std::array<std::byte, 8> magic{};
  decoder(magic);
  if (magic != kRingMagic) decoder.fail("not a key ring");
  RingRecord ring;
  decoder(ring.entries);
  SPACE_CHECK_OK(decoder.finish());
  auto count = [&](std::uint8_t purpose) {
    return std::ranges::count(ring.entries, purpose, &RingRecord::Entry::purpose);
  };
  if (count(kNames) != 1 || count(kSeals) < 1 || ring.entries.size() > kMaxRingKeys ||
      count(kNames) + count(kSeals) != static_cast<std::ptrdiff_t>(ring.entries.size())) {
    return malformed("key ring lacks keys");
  }
  return ring;
}

Result<crypto::SecretBytes> Keys::object_key(const KeyId& id, ByteView salt, std::string_view purpose) const {
  auto found = keys_.find(id);
  if (found == keys_.end()) {
    return make_error(Code::kDataLoss, "store.unknown_key",
                      "data key " + id.hex() + " is not in the tenant's ring");
  }
  return crypto::hkdf_sha256(found->second.view(), salt, as_bytes(purpose), crypto::kKeyBytes);
}

Result<std::shared_ptr<const Keys>> KeyRings::get(const TenantId& tenant) {
  return load(tenant, false);
}
Result<std::shared_ptr<const Keys>> KeyRings::get_or_create(const TenantId& tenant) {
  return load(tenant, true);
}

void KeyRings::drop(const TenantId& tenant) {
  std::lock_guard lock(mutex_);
  cache_.erase(tenant);
  ++drops_[tenant];
}

Result<bool> KeyRings::has_objects(const TenantId& tenant) {
  for (const std::string& folder : {roots_folder(tenant), packs_folder(tenant)}) {
    SPACE_TRY(auto objects, objects_.list(folder));
    if (!objects.empty()) return true;
  }
  SPACE_TRY(auto heads, objects_.list_folders(heads_folder(tenant)));
  return !heads.empty();
}

Result<RingRecord::Entry> KeyRings::generate(const TenantId& tenant, std::uint8_t purpose) {
  SPACE_TRY(GeneratedKey key, provider_.generate(tenant));
  if (key.key.size() != crypto::kKeyBytes || key.wrapped.size() > kMaxWrappedBytes) {
    return make_error(Code::kInternal, "store.bad_key", "the key provider made a key of the wrong size");
  }
  return RingRecord::Entry{KeyId::fresh(random_), purpose, std::move(key.wrapped)};
}

Result<std::shared_ptr<const Keys>> KeyRings::load(const TenantId& tenant, bool create) {
  std::uint64_t drops = 0;
  {
    std::lock_guard lock(mutex_);
    auto found = cache_.find(tenant);
    if (found != cache_.end() && clock_.now() < found->second.until) {
      if (found->second.keys) return found->second.keys;
      if (!create) return nothing();
    }
    cache_.erase(tenant);
    drops = drops_[tenant];
  }
  Monotonic until = clock_.now() + ttl_;
  SPACE_TRY(auto head, objects_.read_head(ring_name(tenant)));
  if (!head) {
    SPACE_TRY(bool orphaned, has_objects(tenant));
    if (orphaned) return make_error(Code::kDataLoss, "store.missing", ring_name(tenant) + " is missing");
    if (!create) {
      std::lock_guard lock(mutex_);
      cache_[tenant] = {nullptr, clock_.now() + kNothingTtl};
      return nothing();
    }
    RingRecord fresh;
    for (std::uint8_t purpose : {kNames, kSeals}) {
      SPACE_TRY(auto entry, generate(tenant, purpose));
      fresh.entries.push_back(std::move(entry));
    }
    auto swapped = objects_.swap_head(ring_name(tenant), 0, encode_ring(fresh));
    if (!swapped.ok() && swapped.error().reason != "blob.conflict" &&
        swapped.error().reason != "blob.overtaken") {
      return std::move(swapped).error();
    }
    SPACE_TRY(auto again, objects_.read_head(ring_name(tenant)));  // ours or the one that was faster
    head = std::move(again);
    if (!head) return make_error(Code::kAborted, "store.conflict", "the key ring vanished");
  }
  if (head->version == 1) {
    // Twice, so that a rotation cannot be taken away unnoticed: two versions are always kept.
    auto second = objects_.swap_head(ring_name(tenant), 1, head->bytes);
    second.ignore("the next load tries again");
  }
  auto ring = decode_ring(head->bytes);
  if (!ring.ok()) {
    // The version before differs at most by one rotation and opens everything that it knows.
    auto older = objects_.read_head_version(ring_name(tenant), head->version - 1);
    if (older.ok()) ring = decode_ring(older->bytes);
    if (!ring.ok()) {
      return make_error(Code::kDataLoss, "store.corrupt", ring_name(tenant) + ": " + ring.error().message);
    }
  }
  std::shared_ptr<Keys> keys;
  for (const auto& entry : ring->entries) {
    if (entry.purpose != kNames) continue;
    SPACE_TRY(auto naming, provider_.unwrap(tenant, entry.wrapped));
    keys = std::make_shared<Keys>(tenant, std::move(naming));
  }
  for (const auto& entry : ring->entries) {
    if (entry.purpose != kSeals) continue;
    SPACE_TRY(auto key, provider_.unwrap(tenant, entry.wrapped));
    keys->keys_.emplace(entry.id, std::move(key));
    keys->sealing_ = entry.id;  // the last one
  }
  std::lock_guard lock(mutex_);
  if (drops_[tenant] == drops) cache_[tenant] = {keys, until};
  return std::shared_ptr<const Keys>(keys);
}

Result<RingRecord> KeyRings::change_ring(const TenantId& tenant,
                                         const std::function<Result<void>(RingRecord&)>& change) {
  SPACE_TRY(auto head, objects_.read_head(ring_name(tenant)));
  if (!head) return nothing();
  auto ring = decode_ring(head->bytes);
  if (!ring.ok()) return std::move(ring).error().context(ring_name(tenant));
  SPACE_CHECK_OK(change(*ring));
  auto swapped = objects_.swap_head(ring_name(tenant), head->version, encode_ring(*ring));
  drop(tenant);
  if (!swapped.ok()) return std::move(swapped).error();
  return ring;
}

Result<void> KeyRings::rewrap(const TenantId& tenant) {
  SPACE_CHECK_OK(change_ring(tenant, [&](RingRecord& ring) -> Result<void> {
    for (auto& entry : ring.entries) {
      SPACE_TRY(auto key, provider_.unwrap(tenant, entry.wrapped));
      SPACE_TRY(entry.wrapped, provider_.wrap(tenant, key));
    }
    return {};
  }));
  return {};
}

Result<void> KeyRings::add_sealing_key(const TenantId& tenant) {
  SPACE_CHECK_OK(change_ring(tenant, [&](RingRecord& ring) -> Result<void> {
    if (ring.entries.size() >= kMaxRingKeys) {
      return make_error(Code::kResourceExhausted, "store.too_many_keys", "the tenant has too many data keys");
    }
    SPACE_TRY(auto entry, generate(tenant, kSeals));
    ring.entries.push_back(std::move(entry));
    return {};
  }));
  return {};
}

}  // namespace space::imager::store
