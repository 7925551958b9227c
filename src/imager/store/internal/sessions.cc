// SPDX-License-Identifier: Apache-2.0
#include "imager/store/internal/sessions.h"

#include <algorithm>

namespace space::imager::store {
namespace {

constexpr int kMaxAttempts = 64;
constexpr std::size_t kMaxCachedCheckpoints = 256;

std::string version_name(const std::string& head, std::uint64_t version) {
  return fmt::format("{}/{}", head, version);
}

// Another writer's version stands, ours may or may not: read what is there.
bool lost(const Error& error) {
  return error.reason == "blob.conflict" || error.reason == "blob.overtaken";
}

Damage head_damage(const SessionId& session, Damage::Kind kind, std::string object, std::string detail) {
  return Damage{kind, std::move(object), std::move(detail), session, {}};
}

}  // namespace

std::optional<SnapshotInfo> History::find(const SnapshotId& id) const {
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
    if (change->removed == id) return std::nullopt;
    if (change->put && change->put->id == id) return change->put;
  }
  if (!checkpoint_) return std::nullopt;
  auto found = checkpoint_->places.find(id);
  if (found == checkpoint_->places.end()) return std::nullopt;
  return checkpoint_->snapshots[found->second];
}

std::vector<SnapshotInfo> History::all() const {
  std::vector<SnapshotInfo> snapshots;
  if (checkpoint_) snapshots = checkpoint_->snapshots;
  for (const HistoryChange& change : changes_) {
    if (change.removed)
      std::erase_if(snapshots, [&](const auto& info) { return info.id == *change.removed; });
    if (!change.put) continue;
    auto found = std::ranges::find(snapshots, change.put->id, &SnapshotInfo::id);
    if (found == snapshots.end()) {
      snapshots.push_back(*change.put);
    } else {
      *found = *change.put;
    }
  }
  return snapshots;
}

Result<std::shared_ptr<const History::Checkpoint>> Sessions::checkpoint(const Keys& keys,
                                                                        const std::string& name) {
  {
    std::lock_guard lock(mutex_);
    auto found = checkpoints_.find(name);
    if (found != checkpoints_.end()) return found->second;
  }
  auto bytes = core_.objects.get(name, kMaxSealedBytes);
  if (!bytes.ok()) {
    if (bytes.error().reason == "blob.not_found") {
      return make_error(Code::kDataLoss, "store.missing", name + " is missing");
    }
    return std::move(bytes).error();
  }
  SPACE_TRY(auto record, open_record<HistoryRecord>(keys, ObjectKind::kHistory, name, *bytes));
  auto made = std::make_shared<History::Checkpoint>();
  made->snapshots = std::move(record.snapshots);
  for (std::size_t i = 0; i < made->snapshots.size(); ++i) made->places.emplace(made->snapshots[i].id, i);
  std::lock_guard lock(mutex_);
  if (checkpoints_.size() >= kMaxCachedCheckpoints) checkpoints_.erase(checkpoints_.begin());
  checkpoints_[name] = made;
  return std::shared_ptr<const History::Checkpoint>(made);
}

Result<SessionState> Sessions::open_version(const Keys& keys, const SessionId& session,
                                            std::uint64_t version) {
  std::string name = head_name(keys.tenant(), session);
  SPACE_TRY(auto value, core_.objects.read_head_version(name, version));
  SPACE_TRY(auto head,
            open_record<HeadRecord>(keys, ObjectKind::kHead, version_name(name, version), value.bytes));
  if (head.session != session) {
    return make_error(Code::kDataLoss, "store.corrupt",
                      version_name(name, version) + ": is another session's");
  }
  SessionState state;
  state.version = version;
  state.history.changes_ = head.changes;
  if (!head.checkpoint.empty()) {
    SPACE_TRY(state.history.checkpoint_,
              checkpoint(keys, history_name(keys.tenant(), session, head.checkpoint)));
  }
  state.head = std::move(head);
  return state;
}

Result<SessionState> Sessions::read(const Keys& keys, const SessionId& session, Tombstones tombstones) {
  std::string name = head_name(keys.tenant(), session);
  for (int attempt = 0;; ++attempt) {
    SPACE_TRY(auto versions, core_.objects.head_versions(name));
    if (versions.empty()) {
      return make_error(Code::kNotFound, "store.not_found", "there is no session " + session.str());
    }
    std::vector<Damage> damage;
    std::uint64_t newest = versions.back();
    if (newest > 1 && !std::ranges::binary_search(versions, newest - 1)) {
      // Two versions are always kept: the newest was taken away, or the one before. Unless the head moved
      // while it was listed.
      SPACE_TRY(auto again, core_.objects.head_versions(name));
      if (again != versions && attempt < kMaxAttempts) continue;
      damage.push_back(head_damage(session, Damage::Kind::kMissing, name,
                                   fmt::format("a version beside {} was taken away", newest)));
    }
    auto state = open_version(keys, session, newest);
    if (!state.ok() && state.error().reason == "blob.not_found" && attempt < 16)
      continue;  // replaced meanwhile
    if (!state.ok() && state.error().code == Code::kDataLoss && versions.size() > 1) {
      bool missing = state.error().reason == "store.missing";
      damage.push_back(head_damage(session, missing ? Damage::Kind::kMissing : Damage::Kind::kCorrupt,
                                   object_named_by(state.error()), state.error().message));
      auto older = open_version(keys, session, versions[versions.size() - 2]);
      if (older.ok()) state = std::move(older);
    }
    if (!state.ok()) return std::move(state).error();
    if (state->head.deleted && tombstones == Tombstones::kHidden) {
      return make_error(Code::kNotFound, "store.not_found", "session " + session.str() + " was removed");
    }
    state->damage = std::move(damage);
    return state;
  }
}

Result<std::uint64_t> Sessions::swap(const Keys& keys, const SessionId& session, std::uint64_t expected,
                                     const HeadRecord& head) {
  std::string name = head_name(keys.tenant(), session);
  SPACE_TRY(Bytes object,
            seal_record(keys, core_.random, ObjectKind::kHead, version_name(name, expected + 1), head));
  return core_.objects.swap_head(name, expected, object);
}

Result<bool> Sessions::create(const Keys& keys, const SessionId& session) {
  bool fresh = false;
  auto existing = read(keys, session, Tombstones::kShown);
  if (!existing.ok()) {
    if (existing.error().code != Code::kNotFound) return std::move(existing).error();
    HeadRecord head;
    head.session = session;
    auto swapped = swap(keys, session, 0, head);
    if (!swapped.ok() && !lost(swapped.error())) return std::move(swapped).error();
    fresh = swapped.ok();
    existing = read(keys, session, Tombstones::kShown);
    if (!existing.ok()) return std::move(existing).error();
  }
  if (existing->head.deleted) {
    return make_error(Code::kFailedPrecondition, "store.session_ended",
                      "session " + session.str() + " was removed");
  }
  if (existing->version == 1) {
    auto second = swap(keys, session, 1, existing->head);
    if (!second.ok() && !lost(second.error())) return std::move(second).error();
  }
  return fresh;
}

Result<std::string> Sessions::write_checkpoint(const Keys& keys, const SessionId& session,
                                               std::vector<SnapshotInfo> snapshots) {
  std::string hex = PackId::fresh(core_.random).hex();
  std::string name = history_name(keys.tenant(), session, hex);
  HistoryRecord record{std::move(snapshots)};
  SPACE_TRY(Bytes object, seal_record(keys, core_.random, ObjectKind::kHistory, name, record));
  ByteView part = object;
  SPACE_CHECK_OK(core_.objects.put(name, std::span(&part, 1), blob::Durability::kSynced));
  return hex;
}

Result<SessionState> Sessions::change(const Keys& keys, const SessionId& session, const Change& change,
                                      Again again) {
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    SPACE_TRY(auto state, read(keys, session));
    if (!state.damage.empty()) {
      const Damage& damage = state.damage.front();
      return make_error(Code::kDataLoss, "store.corrupt",
                        damage.object + ": " + damage.detail + "; repair the session first");
    }
    SPACE_CHECK_OK(change(state.head, state.history));
    state.history.changes_ = state.head.changes;
    if (state.head.changes.size() > kMaxChanges) {
      SPACE_TRY(state.head.checkpoint, write_checkpoint(keys, session, state.history.all()));
      state.head.changes.clear();
    }
    auto swapped = swap(keys, session, state.version, state.head);
    if (swapped.ok()) {
      state.version = *swapped;
      return state;
    }
    if (swapped.error().reason == "blob.uncertain") {
      return make_error(Code::kUnavailable, "store.uncertain", swapped.error().message);
    }
    if (swapped.error().reason == "blob.overtaken") {
      if (again == Again::kAllowed) continue;
      return make_error(Code::kUnavailable, "store.overtaken", swapped.error().message);
    }
    if (swapped.error().reason != "blob.conflict") return std::move(swapped).error();
  }
  return make_error(Code::kAborted, "store.conflict",
                    "session " + session.str() + " is changed by too many writers");
}

Result<void> Sessions::rebuild(const Keys& keys, const SessionId& session,
                               std::vector<SnapshotInfo> snapshots, std::uint64_t generation,
                               std::uint64_t base_generation) {
  HeadRecord head;
  head.session = session;
  head.generation = generation;
  head.base_generation = base_generation;
  SPACE_TRY(auto versions, core_.objects.head_versions(head_name(keys.tenant(), session)));
  // What can still be read of the old head keeps older writers out.
  for (std::uint64_t version : versions) {
    auto old = open_version(keys, session, version);
    if (old.ok()) head.fencing_token = std::max(head.fencing_token, old->head.fencing_token);
  }
  SPACE_TRY(head.checkpoint, write_checkpoint(keys, session, std::move(snapshots)));
  std::uint64_t expected = versions.empty() ? 0 : versions.back();
  SPACE_TRY(std::uint64_t version, swap(keys, session, expected, head));
  // Twice, so that both kept versions are good ones.
  SPACE_CHECK_OK(swap(keys, session, version, head));
  return {};
}

Result<std::vector<SessionId>> Sessions::list(const TenantId& tenant) {
  SPACE_TRY(auto names, core_.objects.list_folders(heads_folder(tenant)));
  std::vector<SessionId> sessions;
  for (const std::string& name : names) {
    if (is_well_formed_id(name)) sessions.emplace_back(name);
  }
  return sessions;
}

Result<void> check_fencing(HeadRecord& head, const WriterOptions& writer) {
  if (writer.fencing_token < head.fencing_token) {
    return make_error(Code::kFailedPrecondition, "store.fenced",
                      fmt::format("session {} has moved: token {} is older than {}", head.session.str(),
                                  writer.fencing_token, head.fencing_token));
  }
  head.fencing_token = writer.fencing_token;
  return {};
}

}  // namespace space::imager::store
