// SPDX-License-Identifier: Apache-2.0
#include "imager/store/format/node.h"

#include <algorithm>

namespace space::imager::store {
namespace {

constexpr std::uint8_t kLeafTag = 1;
constexpr std::uint8_t kInnerTag = 2;
constexpr std::uint8_t kNodeVersion = 1;

using Present = std::array<std::byte, kFanout / 8>;

Present pack_bits(const std::bitset<kFanout>& bits) {
  Present out{};
  for (std::size_t i = 0; i < kFanout; ++i) {
    if (bits[i]) out[i / 8] |= std::byte(1u << (i % 8));
  }
  return out;
}
std::bitset<kFanout> unpack_bits(const Present& raw) {
  std::bitset<kFanout> out;
  for (std::size_t i = 0; i < kFanout; ++i) out[i] = (raw[i / 8] & std::byte(1u << (i % 8))) != std::byte{0};
  return out;
}

// A table of the distinct values in order of first use, and each use's place in it.
template <class T>
struct Table {
  std::vector<T> values;
  std::uint16_t place(const T& value) {
    // Neighbours mostly share: look from the end.
    for (std::size_t i = values.size(); i-- > 0;) {
      if (values[i] == value) return static_cast<std::uint16_t>(i);
    }
    values.push_back(value);
    return static_cast<std::uint16_t>(values.size() - 1);
  }
};

struct PackPlace {
  Realm realm{};
  PackId pack;
  bool operator==(const PackPlace&) const = default;
};
struct FramePlace {
  std::uint16_t pack = 0;
  std::uint32_t offset = 0;
  std::uint32_t stored = 0;
  bool operator==(const FramePlace&) const = default;
};
template <class A>
void fields(A& a, PackPlace& place) {
  a(place.realm);
  a(place.pack);
}
template <class A>
void fields(A& a, FramePlace& place) {
  a(place.pack);
  a(place.offset);
  a(place.stored);
}

Error malformed(const char* why) {
  return make_error(Code::kDataLoss, "store.malformed", why);
}

// Tables are written with a u16 count.
template <class T>
void write_table(Encoder& out, const std::vector<T>& values) {
  out(static_cast<std::uint16_t>(values.size()));
  for (const T& value : values) out(value);
}
template <class T>
std::vector<T> read_table(Decoder& in) {
  std::uint16_t count = 0;
  in(count);
  if (count > kFanout) in.fail("table has more entries than the node");
  std::vector<T> values;
  for (std::size_t i = 0; i < count && !in.failed(); ++i) in(values.emplace_back());
  return values;
}

bool make_frame(const std::vector<PackPlace>& packs, const FramePlace& place, FrameRef& out) {
  if (place.pack >= packs.size()) return false;
  const PackPlace& pack = packs[place.pack];
  if (pack.realm > Realm::kBase || place.offset < kPackHeaderBytes || place.stored > kMaxFrameStoredBytes ||
      place.stored <= kFrameHeaderBytes + crypto::kTagBytes) {
    return false;
  }
  out = {pack.realm, pack.pack, place.offset, place.stored};
  return true;
}

Result<TreeNode> decode_leaf(Decoder& in) {
  TreeNode node;
  node.leaf = std::make_unique<Leaf>();
  Present present{};
  in(present);
  node.leaf->present = unpack_bits(present);
  auto packs = read_table<PackPlace>(in);
  auto frames = read_table<FramePlace>(in);
  for (std::size_t i = 0; i < kFanout && !in.failed(); ++i) {
    if (!node.leaf->present[i]) continue;
    UnitRef& unit = node.leaf->units[i];
    std::uint16_t frame = 0;
    in(frame);
    in(unit.slot);
    in(unit.id);
    if (in.failed()) break;
    if (frame >= frames.size() || !make_frame(packs, frames[frame], unit.frame))
      in.fail("reference makes no sense");
  }
  SPACE_CHECK_OK(in.finish());
  return node;
}

Result<TreeNode> decode_inner(Decoder& in) {
  TreeNode node;
  node.inner = std::make_unique<Inner>();
  in(node.inner->level);
  if (node.inner->level == 0 || node.inner->level >= kMaxHeight) in.fail("level makes no sense");
  Present present{};
  in(present);
  node.inner->present = unpack_bits(present);
  auto packs = read_table<PackPlace>(in);
  for (std::size_t i = 0; i < kFanout && !in.failed(); ++i) {
    if (!node.inner->present[i]) continue;
    FramePlace place;
    in(place);
    in(node.inner->children[i].id);
    if (in.failed()) break;
    if (!make_frame(packs, place, node.inner->children[i].frame)) in.fail("reference makes no sense");
  }
  SPACE_CHECK_OK(in.finish());
  return node;
}

}  // namespace

Bytes encode_leaf(const Leaf& leaf) {
  Table<PackPlace> packs;
  Table<FramePlace> frames;
  std::array<std::uint16_t, kFanout> frame_of{};
  for (std::size_t i = 0; i < kFanout; ++i) {
    if (!leaf.present[i]) continue;
    const FrameRef& frame = leaf.units[i].frame;
    std::uint16_t pack = packs.place({frame.realm, frame.pack});
    frame_of[i] = frames.place({pack, frame.offset, frame.stored});
  }
  Encoder out;
  out(kLeafTag);
  out(kNodeVersion);
  out(pack_bits(leaf.present));
  write_table(out, packs.values);
  write_table(out, frames.values);
  for (std::size_t i = 0; i < kFanout; ++i) {
    if (!leaf.present[i]) continue;
    out(frame_of[i]);
    out(leaf.units[i].slot);
    out(leaf.units[i].id);
  }
  return out.take();
}

Bytes encode_inner(const Inner& inner) {
  Table<PackPlace> packs;
  std::array<std::uint16_t, kFanout> pack_of{};
  for (std::size_t i = 0; i < kFanout; ++i) {
    if (inner.present[i])
      pack_of[i] = packs.place({inner.children[i].frame.realm, inner.children[i].frame.pack});
  }
  Encoder out;
  out(kInnerTag);
  out(kNodeVersion);
  out(inner.level);
  out(pack_bits(inner.present));
  write_table(out, packs.values);
  for (std::size_t i = 0; i < kFanout; ++i) {
    if (!inner.present[i]) continue;
    const NodeRef& child = inner.children[i];
    out(FramePlace{pack_of[i], child.frame.offset, child.frame.stored});
    out(child.id);
  }
  return out.take();
}

Result<TreeNode> decode_node(ByteView bytes) {
  Decoder in(bytes);
  std::uint8_t tag = 0;
  std::uint8_t version = 0;
  in(tag);
  in(version);
  if (in.failed() || version != kNodeVersion) return malformed("tree node of an unknown version");
  auto node = tag == kLeafTag    ? decode_leaf(in)
              : tag == kInnerTag ? decode_inner(in)
                                 : Result<TreeNode>(malformed("tree node of an unknown kind"));
  if (!node.ok()) return node;
  Bytes again = node->leaf ? encode_leaf(*node->leaf) : encode_inner(*node->inner);
  if (!std::ranges::equal(again, bytes)) return malformed("tree node isn't in canonical form");
  return node;
}

unsigned tree_height(std::uint64_t unit_count) {
  unsigned height = 1;
  while (height < kMaxHeight && unit_count > (std::uint64_t{1} << (kFanoutBits * height))) ++height;
  return height;
}

}  // namespace space::imager::store
