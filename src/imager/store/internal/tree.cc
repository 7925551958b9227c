// SPDX-License-Identifier: Apache-2.0
#include "imager/store/internal/tree.h"

#include <algorithm>

namespace space::imager::store {
namespace {

// Units below a node of `height`.
std::uint64_t span_of(unsigned height) {
  return std::uint64_t{1} << (kFanoutBits * height);
}

std::uint64_t memory_of(const TreeNode& node) {
  return node.leaf ? sizeof(Leaf) + 128 : sizeof(Inner) + 128;
}

NodeRef resolved(Realm owner, NodeRef ref) {
  ref.frame.realm = resolve(owner, ref.frame.realm);
  return ref;
}

Error wrong_shape(const NodeRef& ref) {
  return make_error(Code::kDataLoss, "store.corrupt",
                    fmt::format("tree node {} in pack {} is of another height than its place", to_hex(ref.id),
                                ref.frame.pack.hex()));
}

}  // namespace

Result<NodePtr> Trees::node(const Access& access, const NodeRef& ref) {
  SPACE_TRY(auto keys, access.keys(ref.frame.realm));
  Key key{keys->tenant(), ref.id};
  std::uint64_t drops = 0;
  {
    std::lock_guard lock(mutex_);
    auto found = entries_.find(key);
    if (found != entries_.end()) {
      uses_.splice(uses_.begin(), uses_, found->second.use);
      return found->second.node;
    }
    drops = drops_;
  }
  SPACE_TRY(FramePtr frame, frames_.load(access, ref.frame, FrameKind::kNode));
  auto content = frame->content(*keys, Domain::kNode, 0, frame->plain().size(), ref.id);
  auto decoded = content.ok() ? decode_node(*content) : Result<TreeNode>(std::move(content).error());
  if (!decoded.ok()) {
    return make_error(Code::kDataLoss, "store.corrupt",
                      fmt::format("{} at byte {}: {}", pack_name(keys->tenant(), ref.frame.pack),
                                  ref.frame.offset, decoded.error().message));
  }
  auto node = std::make_shared<const TreeNode>(std::move(decoded).value());
  std::lock_guard lock(mutex_);
  if (drops != drops_) return node;
  auto [found, fresh] = entries_.try_emplace(key);
  if (!fresh) return found->second.node;
  uses_.push_front(key);
  found->second = {node, memory_of(*node), uses_.begin()};
  bytes_ += found->second.bytes;
  while (bytes_ > limit_ && uses_.size() > 1) {
    auto last = entries_.find(uses_.back());
    bytes_ -= last->second.bytes;
    entries_.erase(last);
    uses_.pop_back();
  }
  return node;
}

Result<Trees::OwnedLeaf> Trees::leaf(const Access& access, const TreeRef& tree, std::uint64_t leaf_number) {
  unsigned height = tree_height(tree.unit_count);
  if (!tree.root || leaf_number >= span_of(height) / kFanout) return OwnedLeaf{};
  NodeRef ref = *tree.root;
  for (;;) {
    SPACE_TRY(NodePtr at, node(access, ref));
    --height;
    if (height == 0) {
      if (!at->leaf) return wrong_shape(ref);
      return OwnedLeaf{std::move(at), ref.frame.realm};
    }
    if (!at->inner || at->inner->level != height) return wrong_shape(ref);
    std::size_t index = (leaf_number >> (kFanoutBits * (height - 1))) % kFanout;
    if (!at->inner->present[index]) return OwnedLeaf{};
    ref = resolved(ref.frame.realm, at->inner->children[index]);
  }
}

Result<std::optional<UnitRef>> Trees::find(const Access& access, const TreeRef& tree, std::uint64_t unit) {
  SPACE_TRY(OwnedLeaf at, leaf(access, tree, unit / kFanout));
  if (!at.node || !at.node->leaf->present[unit % kFanout]) return std::optional<UnitRef>();
  UnitRef ref = at.node->leaf->units[unit % kFanout];
  ref.frame.realm = resolve(at.owner, ref.frame.realm);
  return std::optional<UnitRef>(ref);
}

Result<void> Trees::walk(const Access& access, const TreeRef& tree, const Visitor& visitor) {
  if (!tree.root) return {};
  return walk_node(access, *tree.root, tree_height(tree.unit_count), 0, visitor);
}

Result<void> Trees::walk_node(const Access& access, const NodeRef& ref, unsigned height, std::uint64_t first,
                              const Visitor& visitor) {
  if (visitor.enter(ref, first) == Visit::kSkip) return {};
  auto at = node(access, ref);
  if (at.ok() && (height == 1 ? !(*at)->leaf : !(*at)->inner || (*at)->inner->level != height - 1)) {
    at = wrong_shape(ref);
  }
  if (!at.ok()) return visitor.damaged(ref, at.error());
  SPACE_CHECK_OK(visitor.node(ref, **at, first));
  if (height == 1) return {};
  const Inner& inner = *(*at)->inner;
  for (std::size_t i = 0; i < kFanout; ++i) {
    if (!inner.present[i]) continue;
    SPACE_CHECK_OK(walk_node(access, resolved(ref.frame.realm, inner.children[i]), height - 1,
                             first + i * span_of(height - 1), visitor));
  }
  return {};
}

void Trees::drop(const TenantId& tenant) {
  std::lock_guard lock(mutex_);
  ++drops_;
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (it->first.owner != tenant) {
      ++it;
      continue;
    }
    bytes_ -= it->second.bytes;
    uses_.erase(it->second.use);
    it = entries_.erase(it);
  }
}

Result<TreeRef> TreeEditor::apply(const TreeRef& old, std::uint64_t unit_count,
                                  std::span<const Change> changes) {
  limit_ = unit_count;
  shrinks_ = unit_count < old.unit_count;
  for (const Change& change : changes) {
    if (change.second) fresh_packs_.insert(change.second->frame.pack);
  }
  unsigned old_height = tree_height(old.unit_count);
  unsigned height = tree_height(unit_count);
  std::optional<NodeRef> root = old.root;
  // A smaller tree is the leftmost subtree, a higher one has the old tree leftmost.
  for (; root && old_height > height; --old_height) {
    SPACE_TRY(NodePtr at, trees_.node(access_, *root));
    if (!at->inner || at->inner->level != old_height - 1) return wrong_shape(*root);
    Realm owner = root->frame.realm;
    root = at->inner->present[0] ? std::optional(resolved(owner, at->inner->children[0])) : std::nullopt;
  }
  SPACE_TRY(root, edit({root, std::min(old_height, height)}, height, 0, changes));
  return TreeRef{unit_count, root};
}

Result<std::optional<NodeRef>> TreeEditor::store(Bytes plain) {
  SPACE_TRY(NodeRef ref, hooks_.store_node(std::move(plain)));
  fresh_packs_.insert(ref.frame.pack);
  return std::optional<NodeRef>(ref);
}

Result<std::optional<NodeRef>> TreeEditor::edit(const Old& old, unsigned height, std::uint64_t first,
                                                std::span<const Change> changes) {
  if (first >= limit_) return std::optional<NodeRef>();
  bool cut = shrinks_ && old.ref && first + span_of(height) > limit_;
  bool fits = !old.ref || old.height == height;
  if (changes.empty() && !cut && fits) return old.ref;
  return height == 1 ? edit_leaf(old.ref, first, changes) : edit_inner(old, height, first, changes);
}

Result<std::optional<NodeRef>> TreeEditor::edit_leaf(const std::optional<NodeRef>& old, std::uint64_t first,
                                                     std::span<const Change> changes) {
  auto leaf = std::make_unique<Leaf>();
  if (old) {
    SPACE_TRY(NodePtr at, trees_.node(access_, *old));
    if (!at->leaf) return wrong_shape(*old);
    *leaf = *at->leaf;
    for (UnitRef& unit : leaf->units) unit.frame.realm = resolve(old->frame.realm, unit.frame.realm);
  }
  for (const auto& [number, unit] : changes) {
    std::size_t index = number - first;
    leaf->present[index] = unit.has_value();
    if (unit) leaf->units[index] = *unit;
  }
  for (std::size_t i = 0; i < kFanout && shrinks_; ++i) {
    if (first + i >= limit_) leaf->present[i] = false;
  }
  if (leaf->present.none()) return std::optional<NodeRef>();
  SPACE_CHECK_OK(bound_leaf(*leaf));
  return store(encode_leaf(*leaf));
}

Result<std::optional<NodeRef>> TreeEditor::edit_inner(const Old& old, unsigned height, std::uint64_t first,
                                                      std::span<const Change> changes) {
  auto inner = std::make_unique<Inner>();
  inner->level = static_cast<std::uint8_t>(height - 1);
  bool grows = old.ref && old.height < height;
  if (old.ref && !grows) {
    SPACE_TRY(NodePtr at, trees_.node(access_, *old.ref));
    if (!at->inner || at->inner->level != height - 1) return wrong_shape(*old.ref);
    *inner = *at->inner;
    for (NodeRef& child : inner->children) child = resolved(old.ref->frame.realm, child);
  }
  std::uint64_t step = span_of(height - 1);
  auto begin = changes.begin();
  for (std::size_t i = 0; i < kFanout; ++i) {
    std::uint64_t child_first = first + i * step;
    auto end = std::find_if(begin, changes.end(),
                            [&](const Change& change) { return change.first >= child_first + step; });
    Old below{inner->present[i] ? std::optional(inner->children[i]) : std::nullopt, height - 1};
    if (grows && i == 0) below = {old.ref, old.height};
    SPACE_TRY(std::optional<NodeRef> child, edit(below, height - 1, child_first, {begin, end}));
    inner->present[i] = child.has_value();
    if (child) inner->children[i] = *child;
    begin = end;
  }
  if (inner->present.none()) return std::optional<NodeRef>();
  SPACE_CHECK_OK(bound_inner(*inner));
  return store(encode_inner(*inner));
}

namespace {

// The entries to move so that at most `max` packs are named: those of the packs with the fewest entries, two
// or more at a time, since the copies come to lie in one new pack. Packs of base images and of this ingest
// stay.
template <class Node, class Frame, class Keep>
std::vector<std::size_t> entries_to_move(const Node& node, std::uint32_t max, Frame frame_of, Keep keep) {
  std::map<PackId, std::vector<std::size_t>> by_pack;
  for (std::size_t i = 0; i < kFanout; ++i) {
    if (node.present[i]) by_pack[frame_of(i).pack].push_back(i);
  }
  if (by_pack.size() <= max) return {};
  std::size_t surplus = by_pack.size() - max + 1;  // + 1: the copies' pack
  std::vector<std::vector<std::size_t>> candidates;
  for (auto& [pack, entries] : by_pack) {
    if (!keep(frame_of(entries.front()))) candidates.push_back(std::move(entries));
  }
  if (candidates.size() < 2) return {};
  std::ranges::sort(candidates, {}, &std::vector<std::size_t>::size);
  std::vector<std::size_t> moved;
  for (std::size_t i = 0; i < std::min(surplus, candidates.size()); ++i) {
    moved.insert(moved.end(), candidates[i].begin(), candidates[i].end());
  }
  std::ranges::sort(moved);
  return moved;
}

}  // namespace

Result<void> TreeEditor::bound_leaf(Leaf& leaf) {
  auto moved = entries_to_move(
      leaf, max_packs_, [&](std::size_t i) { return leaf.units[i].frame; },
      [&](const FrameRef& frame) {
        return frame.realm == Realm::kBase || fresh_packs_.contains(frame.pack);
      });
  if (moved.empty()) return {};
  std::vector<UnitRef> units;
  for (std::size_t index : moved) units.push_back(leaf.units[index]);
  SPACE_TRY(auto places, hooks_.rewrite_units(units));
  for (std::size_t i = 0; i < moved.size(); ++i) {
    leaf.units[moved[i]] = places[i];
    fresh_packs_.insert(places[i].frame.pack);
  }
  return {};
}

Result<void> TreeEditor::bound_inner(Inner& inner) {
  auto moved = entries_to_move(
      inner, max_packs_, [&](std::size_t i) { return inner.children[i].frame; },
      [&](const FrameRef& frame) {
        return frame.realm == Realm::kBase || fresh_packs_.contains(frame.pack);
      });
  for (std::size_t index : moved) {
    NodeRef& child = inner.children[index];
    SPACE_TRY(NodePtr at, trees_.node(access_, child));
    SPACE_TRY(auto moved_child, store(at->leaf ? encode_leaf(*at->leaf) : encode_inner(*at->inner)));
    child = *moved_child;
  }
  return {};
}

}  // namespace space::imager::store
