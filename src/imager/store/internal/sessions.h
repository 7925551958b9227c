// SPDX-License-Identifier: Apache-2.0
#pragma once
// Heads and histories: which snapshots a session has, and the only way to change that.
//
// The head is a small sealed record that is swapped by compare-and-set. It holds at most kMaxChanges changes
// since the last checkpoint (the whole history in an immutable object), so that a swap costs the same however
// long the history is. Damage never shortens a history silently: reading falls back to the version before and
// says so, changing refuses.
//
// Resource, thread-safe.

#include <functional>
#include <unordered_map>

#include "imager/store/internal/core.h"

namespace space::imager::store {

inline constexpr std::size_t kMaxChanges = 64;

// An immutable list with an index, and the changes since. Value type; cheap to copy.
class History {
 public:
  [[nodiscard]] std::optional<SnapshotInfo> find(const SnapshotId& id) const;
  [[nodiscard]] std::vector<SnapshotInfo> all() const;

 private:
  friend class Sessions;
  struct Checkpoint {
    std::vector<SnapshotInfo> snapshots;
    std::unordered_map<SnapshotId, std::size_t> places;
  };
  std::shared_ptr<const Checkpoint> checkpoint_;  // shared by all readers of the same checkpoint; may be null
  std::vector<HistoryChange> changes_;
};

struct SessionState {
  HeadRecord head;
  std::uint64_t version = 0;
  History history;
  std::vector<Damage> damage;  // not empty: this is the version before, or a version was taken away
};

class Sessions {
 public:
  explicit Sessions(Core& core) : core_(core) {}

  // Errors: store.not_found for a session without a head or with a tombstone (unless `tombstones`).
  enum class Tombstones : std::uint8_t { kHidden, kShown };
  Result<SessionState> read(const Keys& keys, const SessionId& session,
                            Tombstones tombstones = Tombstones::kHidden);

  // Makes the head of a new session; an existing one is fine. Returns true when it is new. Writes two
  // versions, so that a first snapshot's head, too, cannot be taken away unnoticed. Errors:
  // store.session_ended when it has a tombstone.
  Result<bool> create(const Keys& keys, const SessionId& session);

  // Reads, lets `change` alter the head (and append to head.changes), swaps; again when another was faster.
  // Errors: those of `change`; store.corrupt when the head is damaged; store.uncertain; store.conflict.
  // After blob.overtaken the change may be in the head or not: kAllowed makes it again, for changes that do
  // no harm twice; kForbidden returns store.overtaken.
  enum class Again : std::uint8_t { kAllowed, kForbidden };
  using Change = std::function<Result<void>(HeadRecord&, const History&)>;
  Result<SessionState> change(const Keys& keys, const SessionId& session, const Change& change,
                              Again again = Again::kAllowed);

  // A new head with exactly these snapshots, oldest first, whatever is there.
  Result<void> rebuild(const Keys& keys, const SessionId& session, std::vector<SnapshotInfo> snapshots,
                       std::uint64_t generation, std::uint64_t base_generation);

  Result<std::vector<SessionId>> list(const TenantId& tenant);

 private:
  Result<SessionState> open_version(const Keys& keys, const SessionId& session, std::uint64_t version);
  Result<std::shared_ptr<const History::Checkpoint>> checkpoint(const Keys& keys, const std::string& name);
  Result<std::string> write_checkpoint(const Keys& keys, const SessionId& session,
                                       std::vector<SnapshotInfo> snapshots);
  Result<std::uint64_t> swap(const Keys& keys, const SessionId& session, std::uint64_t expected,
                             const HeadRecord& head);

  Core& core_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const History::Checkpoint>> checkpoints_;
};

// Refuses a writer whose token is older than the head's, and notes a newer one. Errors: store.fenced.
Result<void> check_fencing(HeadRecord& head, const WriterOptions& writer);

}  // namespace space::imager::store
