// SPDX-License-Identifier: Apache-2.0
#pragma once
// Persistent radix trees over tree nodes: looking up, walking, and making a changed version that shares the
// rest.
//
// Trees is a resource and thread-safe: a bounded cache of decoded nodes above Frames. TreeEditor belongs to
// one ingest.

#include <functional>
#include <list>
#include <set>

#include "imager/store/format/node.h"
#include "imager/store/internal/frames.h"

namespace space::imager::store {

using NodePtr =
    std::shared_ptr<const TreeNode>;  // shared by the cache and by readers that outlast an eviction

class Trees {
 public:
  Trees(Frames& frames, std::uint64_t cache_bytes) : frames_(frames), limit_(cache_bytes) {}

  // The node behind a resolved reference, verified. Errors: as Frames::load; store.corrupt.
  Result<NodePtr> node(const Access& access, const NodeRef& ref);
  // The unit, or none when it is zeros. References in the answer are resolved.
  Result<std::optional<UnitRef>> find(const Access& access, const TreeRef& tree, std::uint64_t unit);
  // The leaf over units [256 n, 256 n + 256), or null, and whose it is.
  struct OwnedLeaf {
    NodePtr node;
    Realm owner = Realm::kOwn;
  };
  Result<OwnedLeaf> leaf(const Access& access, const TreeRef& tree, std::uint64_t leaf_number);
  // Calls `visit` for each node, parents first, with its resolved reference and the first unit below it;
  // kSkip leaves the subtree out. An unreadable node is given to `damaged`, whose error ends the walk.
  enum class Visit : std::uint8_t { kDescend, kSkip };
  struct Visitor {
    // Before the node is loaded.
    std::function<Visit(const NodeRef&, std::uint64_t first_unit)> enter;
    std::function<Result<void>(const NodeRef&, const TreeNode&, std::uint64_t first_unit)> node;
    std::function<Result<void>(const NodeRef&, const Error&)> damaged;
  };
  Result<void> walk(const Access& access, const TreeRef& tree, const Visitor& visitor);
  void drop(const TenantId& tenant);
  [[nodiscard]] Frames& frames() { return frames_; }

 private:
  struct Key {
    TenantId owner;
    ContentId id{};
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const { return IdHash()(key.id); }
  };
  struct Entry {
    NodePtr node;
    std::uint64_t bytes = 0;
    std::list<Key>::iterator use;
  };
  Result<void> walk_node(const Access& access, const NodeRef& ref, unsigned height, std::uint64_t first,
                         const Visitor& visitor);

  Frames& frames_;
  const std::uint64_t limit_;
  std::mutex mutex_;
  std::unordered_map<Key, Entry, KeyHash> entries_;
  std::list<Key> uses_;
  std::uint64_t bytes_ = 0;
  std::uint64_t drops_ = 0;
};

// Makes the changed version of a tree.
class TreeEditor {
 public:
  struct Hooks {
    // Stores a node's bytes and says where.
    std::function<Result<NodeRef>(Bytes plain)> store_node;
    // Stores copies of units close together, for less fragmentation; the new places are the tenant's own.
    std::function<Result<std::vector<UnitRef>>(std::span<const UnitRef>)> rewrite_units;
  };
  TreeEditor(Trees& trees, const Access& access, std::uint32_t max_packs, Hooks hooks)
      : trees_(trees), access_(access), max_packs_(max_packs), hooks_(std::move(hooks)) {}

  // `changes`: ascending, each unit once, below `unit_count`; none = zeros.
  using Change = std::pair<std::uint64_t, std::optional<UnitRef>>;
  Result<TreeRef> apply(const TreeRef& old, std::uint64_t unit_count, std::span<const Change> changes);

 private:
  // A subtree of the old version; lower than its place when the tree grows, then it is the leftmost below it.
  struct Old {
    std::optional<NodeRef> ref;
    unsigned height = 0;
  };
  Result<std::optional<NodeRef>> edit(const Old& old, unsigned height, std::uint64_t first,
                                      std::span<const Change> changes);
  Result<std::optional<NodeRef>> edit_leaf(const std::optional<NodeRef>& old, std::uint64_t first,
                                           std::span<const Change> changes);
  Result<std::optional<NodeRef>> edit_inner(const Old& old, unsigned height, std::uint64_t first,
                                            std::span<const Change> changes);
  Result<std::optional<NodeRef>> store(Bytes plain);
  Result<void> bound_leaf(Leaf& leaf);
  Result<void> bound_inner(Inner& inner);

  Trees& trees_;
  const Access& access_;
  const std::uint32_t max_packs_;
  Hooks hooks_;
  std::uint64_t limit_ = 0;  // units from here on are cut off
  bool shrinks_ = false;
  std::set<PackId> fresh_packs_;  // written by this ingest: not worth rewriting, perhaps not readable yet
};

}  // namespace space::imager::store
