// SPDX-License-Identifier: Apache-2.0
#pragma once
// Opened frames: read, authenticated, decompressed, kept in a bounded cache.
//
// One load per frame however many threads ask at once; the others wait for it. Frames that lie beside each
// other are read in one piece. Errors aren't cached: the next asker reads again. Resource, thread-safe.

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "imager/store/format/pack.h"
#include "lib/blob/object_store.h"

namespace space::imager::store {

// Content-id domains: what kind of content an id names.
enum class Domain : std::uint8_t { kPage = 1, kBlock = 2, kNode = 3, kBlob = 4 };
constexpr Domain domain_of(MapKind map) {
  return map == MapKind::kMemory ? Domain::kPage : Domain::kBlock;
}
inline ContentId content_id(const Keys& keys, Domain domain, ByteView content) {
  return keys.names().content_id(static_cast<std::uint8_t>(domain), crypto::sha256(content));
}

// The keys with which a tenant's references are resolved.
struct Access {
  std::shared_ptr<const Keys> own;
  std::shared_ptr<const Keys>
      base;                         // null until a base image exists; equals `own` for the base tenant itself
  std::optional<Error> base_error;  // why `base` is null
  // Errors: store.missing when there are no base images, or what their keys failed with.
  [[nodiscard]] Result<std::shared_ptr<const Keys>> keys(Realm realm) const;
};

class Frame {
 public:
  explicit Frame(Bytes plain) : plain_(std::move(plain)) {}
  [[nodiscard]] ByteView plain() const { return plain_; }
  // The content in `slot`, if its keyed hash is `id`; computed once per slot. Errors: store.malformed.
  Result<ByteView> content(const Keys& keys, Domain domain, std::size_t slot, std::size_t slot_bytes,
                           const ContentId& id) const;

 private:
  Bytes plain_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<bool, ContentId>> ids_;  // by slot, once computed
};
using FramePtr = std::shared_ptr<const Frame>;  // shared by the cache and by readers that outlast an eviction

class Frames {
 public:
  Frames(blob::ObjectStore& objects, std::uint64_t cache_bytes) : objects_(objects), limit_(cache_bytes) {}

  Result<FramePtr> load(const Access& access, const FrameRef& ref, FrameKind kind);
  // The same for many, in the order of `refs`; reads in the order of the disk.
  Result<std::vector<FramePtr>> load_many(const Access& access, std::span<const FrameRef> refs,
                                          FrameKind kind);
  // A pack's footer, not cached.
  Result<std::vector<FooterFrame>> footer(const Keys& keys, const PackId& pack);
  // Forgets everything opened with the tenant's keys. Frames that readers hold end with them.
  void drop(const TenantId& tenant);
  void forget_pack(const PackId& pack);
  [[nodiscard]] std::uint64_t cached_bytes() const;

 private:
  struct Key {
    TenantId owner;
    PackId pack;
    std::uint32_t offset = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      return IdHash()(key.pack) ^ (key.offset * 0x9e3779b97f4a7c15ull);
    }
  };
  struct Entry {
    FramePtr frame;  // null while one thread loads it
    std::list<Key>::iterator use;
  };
  struct Claim {
    Key key;
    FrameRef ref;
    std::shared_ptr<const Keys> keys;
    std::size_t index = 0;  // in the asker's list
  };
  Result<std::shared_ptr<const PackKey>> pack_key(const Keys& keys, const PackId& pack);
  // Fills `frames` at each claim's index.
  Result<void> load_claimed(std::span<const Claim> claims, FrameKind kind, std::vector<FramePtr>& frames);
  void publish(const Key& key, FramePtr frame);
  void abandon(std::span<const Claim> claims);
  void evict();
  std::unique_ptr<FrameOpener> take_opener();
  void give_opener(std::unique_ptr<FrameOpener> opener);

  blob::ObjectStore& objects_;
  const std::uint64_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable loaded_;
  std::unordered_map<Key, Entry, KeyHash> entries_;
  std::list<Key> uses_;  // most recent first
  std::uint64_t bytes_ = 0;
  std::uint64_t drops_ = 0;
  std::unordered_map<PackId, std::pair<TenantId, std::shared_ptr<const PackKey>>, IdHash> pack_keys_;
  std::vector<std::unique_ptr<FrameOpener>> openers_;
};

}  // namespace space::imager::store
