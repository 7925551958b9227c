// SPDX-License-Identifier: Apache-2.0
#pragma once
// Named immutable objects, and small mutable heads that change by compare-and-set.
//
// What the snapshot store needs of a disk or an object service, and no more: objects are created whole and
// exclusively, read in ranges, listed by folder and removed. A head is a row of versions: swap_head() creates
// version n+1 exclusively, so of two writers that saw n one loses, without locks and on any service with a
// conditional put.
//
// Names are `/`-separated parts of [a-zA-Z0-9._-], chosen by us, never by a tenant.
//
// Errors: blob.not_found; blob.exists; blob.conflict (aborted: nothing was changed); blob.no_space
// (resource_exhausted: quota included); blob.uncertain (unavailable: the change may or may not have become
// durable); blob.io. Implementations are thread-safe and block.

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace space::blob {

enum class Durability : std::uint8_t {
  kBuffered,  // may be lost by a power failure, is seen by everyone at once
  kSynced,    // object and name are durable on return
};

struct ObjectInfo {
  std::string name;  // full
  std::uint64_t bytes = 0;
  WallTime modified{};
};

struct HeadValue {
  std::uint64_t version = 0;
  Bytes bytes;
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Creates `name` from the parts in order. Errors: blob.exists (the object is then unchanged).
  virtual Result<void> put(const std::string& name, std::span<const ByteView> parts,
                           Durability durability) = 0;
  // Exactly out.size() bytes from `offset`. Errors: blob.short when the object ends before (data_loss).
  virtual Result<void> get_range(const std::string& name, std::uint64_t offset, std::span<std::byte> out) = 0;
  // The whole object; blob.too_large above `max_bytes`.
  virtual Result<Bytes> get(const std::string& name, std::size_t max_bytes) = 0;
  virtual Result<std::uint64_t> size(const std::string& name) = 0;
  // The objects directly in `folder` (not in folders below), sorted by name. An absent folder is empty.
  virtual Result<std::vector<ObjectInfo>> list(const std::string& folder) = 0;
  // The names of folders directly in `folder`, sorted, without path.
  virtual Result<std::vector<std::string>> list_folders(const std::string& folder) = 0;
  // Absent is fine.
  virtual Result<void> remove(const std::string& name) = 0;

  // Versions of a head that are present, ascending. The newest two are always kept, so that fewer than two,
  // except for version 1 alone, means that something was taken away.
  virtual Result<std::vector<std::uint64_t>> head_versions(const std::string& name) = 0;
  virtual Result<HeadValue> read_head_version(const std::string& name, std::uint64_t version) = 0;
  // The newest version; none when there was never one.
  virtual Result<std::optional<HeadValue>> read_head(const std::string& name) = 0;
  // Makes version expected + 1 (`expected` 0: there is no version yet) durable and returns its number.
  // Errors: blob.conflict when `expected` isn't the newest; blob.uncertain; blob.overtaken (unavailable) when
  // two or more newer versions came while this one was written, so that it may be among their ancestors or
  // not: read and see.
  virtual Result<std::uint64_t> swap_head(const std::string& name, std::uint64_t expected,
                                          ByteView bytes) = 0;
  // Removes all versions. Only after a last version that no reader would swap (a tombstone).
  virtual Result<void> remove_head(const std::string& name) = 0;

  // Bytes that can still be stored.
  virtual Result<std::uint64_t> free_bytes() = 0;
};

inline constexpr std::size_t kMaxHeadBytes = 1u << 20;

}  // namespace space::blob
