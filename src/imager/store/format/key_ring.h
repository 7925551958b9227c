// SPDX-License-Identifier: Apache-2.0
#pragma once
// The data keys of one tenant, and the keys derived from them.
//
// The ring object holds them wrapped: one that names content (for ever, or equal content would get two names)
// and those that seal (the newest seals, the others still open). Unwrapped keys stay for at most key_ttl;
// then, or after KeyRings::drop(), the provider is asked again, so that a revoked tenant stops opening within
// that time.
//
// KeyRings is a resource and thread-safe. A Keys object is an immutable bundle that calls hold while they
// run.

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "imager/store/format/names.h"
#include "imager/store/key_provider.h"
#include "lib/base/clock.h"
#include "lib/blob/object_store.h"
#include "lib/crypto/aead.h"
#include "lib/crypto/hash.h"

namespace space::imager::store {

class Keys {
 public:
  Keys(TenantId tenant, crypto::SecretBytes naming) : tenant_(std::move(tenant)), names_(naming.view()) {}
  [[nodiscard]] const TenantId& tenant() const { return tenant_; }
  [[nodiscard]] const crypto::KeyedHash& names() const { return names_; }
  [[nodiscard]] const KeyId& sealing_id() const { return sealing_; }
  // The key for one object: HKDF(data key, salt, purpose). Errors: store.unknown_key (data_loss).
  Result<crypto::SecretBytes> object_key(const KeyId& id, ByteView salt, std::string_view purpose) const;

 private:
  friend class KeyRings;
  TenantId tenant_;
  crypto::KeyedHash names_;
  std::map<KeyId, crypto::SecretBytes> keys_;
  KeyId sealing_;
};

// The ring as stored; plain, since what is in it is wrapped.
struct RingRecord {
  struct Entry {
    KeyId id;
    std::uint8_t purpose = 0;  // 0 names, 1 seals
    Bytes wrapped;
  };
  std::vector<Entry> entries;
};
Bytes encode_ring(const RingRecord& ring);
Result<RingRecord> decode_ring(ByteView bytes);

class KeyRings {
 public:
  KeyRings(blob::ObjectStore& objects, KeyProvider& provider, os::Random& random, const Clock& clock,
           std::chrono::seconds ttl)
      : objects_(objects), provider_(provider), random_(random), clock_(clock), ttl_(ttl) {}

  // Keys of a tenant that has a ring. Errors: store.not_found, store.missing (data without a ring), key
  // errors.
  Result<std::shared_ptr<const Keys>> get(const TenantId& tenant);
  // The same, after making a ring for a tenant that has nothing yet.
  Result<std::shared_ptr<const Keys>> get_or_create(const TenantId& tenant);
  void drop(const TenantId& tenant);
  Result<void> rewrap(const TenantId& tenant);
  Result<void> add_sealing_key(const TenantId& tenant);

 private:
  struct Cached {
    std::shared_ptr<const Keys> keys;  // null: the tenant has nothing
    Monotonic until;
  };
  Result<std::shared_ptr<const Keys>> load(const TenantId& tenant, bool create);
  Result<RingRecord::Entry> generate(const TenantId& tenant, std::uint8_t purpose);
  Result<bool> has_objects(const TenantId& tenant);
  Result<RingRecord> change_ring(const TenantId& tenant,
                                 const std::function<Result<void>(RingRecord&)>& change);

  blob::ObjectStore& objects_;
  KeyProvider& provider_;
  os::Random& random_;
  const Clock& clock_;
  std::chrono::seconds ttl_;
  std::mutex mutex_;
  std::map<TenantId, Cached> cache_;
  std::map<TenantId, std::uint64_t>
      drops_;  // a load that began before a drop must not fill the cache after it
};

}  // namespace space::imager::store
