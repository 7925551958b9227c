// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the parts of the store share: the objects below, keys, caches, reservations, leases.
//
// Resource; thread-safe. Parts (ingest, readers, collector, checker) hold a reference and are ended before
// it.

#include <map>
#include <memory>
#include <mutex>

#include "imager/store/format/records.h"
#include "imager/store/format/sealed_object.h"
#include "imager/store/internal/tree.h"
#include "imager/store/internal/workers.h"
#include "imager/store/store.h"

namespace space::imager::store {

// Makes any Random usable from several threads.
class SharedRandom final : public os::Random {
 public:
  explicit SharedRandom(os::Random& random) : random_(random) {}
  void fill(std::span<std::byte> out) override {
    std::lock_guard lock(mutex_);
    random_.fill(out);
  }

 private:
  std::mutex mutex_;
  os::Random& random_;
};

// Bytes set aside of what the disk has free.
class Reservations {
 public:
  Reservations(blob::ObjectStore& objects, std::uint64_t keep_free)
      : objects_(objects), keep_free_(keep_free) {}
  // Errors: store.no_space.
  Result<std::unique_ptr<Reservation>> reserve(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t reserved() const {
    std::lock_guard lock(mutex_);
    return reserved_;
  }

 private:
  class Held;
  blob::ObjectStore& objects_;
  const std::uint64_t keep_free_;
  mutable std::mutex mutex_;
  std::uint64_t reserved_ = 0;
};

class Core;

// Objects that tell every collector on the store what is in use: `leases/<id>.<expiry in microseconds>`.
class Leases {
 public:
  explicit Leases(Core& core) : core_(core) {}
  class Lease {  // given back when it ends
   public:
    Lease(Leases& leases, std::uint64_t number) : leases_(leases), number_(number) {}
    ~Lease() { leases_.release(number_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

   private:
    Leases& leases_;
    std::uint64_t number_;
  };
  // A lease always holds within this process; on a full disk only there.
  std::unique_ptr<Lease> acquire(const TenantId& tenant, const LeaseRecord& record);
  Result<void> renew();
  // All that hold now, this process's and others'; removes those that expired.
  Result<std::vector<LeaseRecord>> active(const TenantId& tenant);

 private:
  struct Held {
    TenantId tenant;
    std::string id;
    LeaseRecord record;
    std::string object;  // empty: not on disk
  };
  Result<std::string> write(const Held& held);
  void release(std::uint64_t number);
  Core& core_;
  std::mutex mutex_;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, Held> held_;
};

class Core {
 public:
  Core(blob::ObjectStore& objects, KeyProvider& keys, os::Random& random, const Clock& clock,
       const StoreOptions& options);

  // Keys of a tenant that exists; and of one that may be new.
  Result<Access> access(const TenantId& tenant);
  Result<Access> access_or_create(const TenantId& tenant);

  // The collector's record: generation 0 when it never ran. Errors: store.corrupt.
  struct CollectorState {
    CollectorRecord record;
    std::uint64_t version = 0;
  };
  Result<CollectorState> collector_state(const Keys& keys);

  // A root record, whether listed or not. Errors: store.not_found, store.corrupt.
  Result<RootRecord> read_root(const Keys& keys, const SnapshotId& snapshot);

  // Forgets keys, frames and nodes.
  void drop(const TenantId& tenant);

  blob::ObjectStore& objects;
  const Clock& clock;
  const StoreOptions options;
  SharedRandom random;
  KeyRings rings;
  Frames frames;
  Trees trees;
  Workers workers;
  Reservations reservations;
  Leases leases;

 private:
  Result<Access> with_base(std::shared_ptr<const Keys> own);
};

// Names a pack by its object's name; none for anything else in the folder.
std::optional<PackId> parse_pack_id(std::string_view hex);

}  // namespace space::imager::store
