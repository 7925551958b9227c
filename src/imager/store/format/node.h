// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tree nodes: 256 units in a leaf, 256 subtrees in an inner node, and their byte form. FORMAT.md section 4.
//
// A node's id is the keyed hash of its byte form, which is canonical: equal nodes have equal bytes.
// References inside a node are relative to the tenant that owns it: kOwn in a base image's node means the
// base images. An absent entry is zeros. Pure. Posture: hostile (the disk).

#include <bitset>
#include <memory>

#include "imager/store/format/pack.h"

namespace space::imager::store {

inline constexpr std::size_t kFanout = 256;
inline constexpr unsigned kFanoutBits = 8;
inline constexpr unsigned kMaxHeight = 6;  // 2^48 units

// One unit: its frame, its place in the frame, its id.
struct UnitRef {
  FrameRef frame;
  std::uint8_t slot = 0;
  ContentId id{};
  bool operator==(const UnitRef&) const = default;
};
// A tree node in a pack.
struct NodeRef {
  FrameRef frame;
  ContentId id{};
  bool operator==(const NodeRef&) const = default;
};
template <class A>
void fields(A& a, NodeRef& ref) {
  a(ref.frame);
  a(ref.id);
}

struct Leaf {
  std::bitset<kFanout> present;
  std::array<UnitRef, kFanout> units;
};
struct Inner {
  std::uint8_t level = 1;  // height above the leaves
  std::bitset<kFanout> present;
  std::array<NodeRef, kFanout> children;
};
struct TreeNode {  // exactly one is set
  std::unique_ptr<Leaf> leaf;
  std::unique_ptr<Inner> inner;
};

Bytes encode_leaf(const Leaf& leaf);
Bytes encode_inner(const Inner& inner);
// Errors: store.malformed. A decoded node encodes to the same bytes.
Result<TreeNode> decode_node(ByteView bytes);

// Meaning of a reference that was found in a node of `owner`.
inline Realm resolve(Realm owner, Realm reference) {
  return owner == Realm::kBase ? Realm::kBase : reference;
}

// The head of a map: what a root record holds of it.
struct TreeRef {
  std::uint64_t unit_count = 0;
  std::optional<NodeRef> root;  // none: all zeros
};
template <class A>
void fields(A& a, TreeRef& tree) {
  a(tree.unit_count);
  a(tree.root);
}
// Levels of a tree for `unit_count` units: 1 = a leaf alone.
unsigned tree_height(std::uint64_t unit_count);

}  // namespace space::imager::store
