// SPDX-License-Identifier: Apache-2.0
#include "node/vmm/qemu/qcow2.h"

#include <bit>

namespace space::node::vmm::qemu {
namespace {

constexpr std::uint64_t kHeaderBytes = 104;
constexpr std::uint32_t kBackingFormatExtension = 0xe2792aca;
constexpr std::uint64_t kEntriesPerCluster = kClusterBytes / 8;
constexpr std::uint64_t kMaxBackingName = 1023;  // the format's own limit

// Layout in clusters: header, table of reference blocks, first reference block, level-1 table.
constexpr std::uint64_t kRefcountTable = 1;
constexpr std::uint64_t kRefcountBlock = 2;
constexpr std::uint64_t kLevel1Table = 3;

std::uint64_t divide_up(std::uint64_t value, std::uint64_t by) {
  return (value + by - 1) / by;
}

template <class Integer>
void store_be(Bytes& out, std::size_t at, Integer value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    out[at + i] = static_cast<std::byte>(value >> (8 * (sizeof value - 1 - i)));
  }
}

// Writes one after another.
class Writer {
 public:
  Writer(Bytes& out, std::size_t at) : out_(out), at_(at) {}
  Writer& u32(std::uint32_t value) {
    store_be(out_, at_, value);
    at_ += sizeof value;
    return *this;
  }
  Writer& u64(std::uint64_t value) {
    store_be(out_, at_, value);
    at_ += sizeof value;
    return *this;
  }
  Writer& text(std::string_view value) {
    std::memcpy(out_.data() + at_, value.data(), value.size());
    at_ += value.size();
    return *this;
  }
  [[nodiscard]] std::size_t at() const { return at_; }

 private:
  Bytes& out_;
  std::size_t at_;
};

}  // namespace

Result<Bytes> overlay_image(std::uint64_t disk_bytes, const std::string& backing) {
  if (disk_bytes == 0 || disk_bytes % 512 != 0 || disk_bytes > kMaxOverlayBytes) {
    return field_error("disk_bytes", "node.disk_size",
                       "a disk must be a multiple of 512 bytes and at most 8 TiB");
  }
  if (backing.empty() || backing.size() > kMaxBackingName) {
    return make_error(Code::kInternal, "node.disk_size", "the template's path has an impossible length");
  }
  std::uint64_t level1_entries = divide_up(disk_bytes, kClusterBytes * kEntriesPerCluster);
  std::uint64_t level1_clusters = divide_up(level1_entries, kEntriesPerCluster);
  std::uint64_t clusters = kLevel1Table + level1_clusters;
  Bytes image(clusters * kClusterBytes);
  constexpr std::uint64_t kExtensionBytes = 8 + 8 + 8;  // backing format, padded; end mark
  Writer(image, 0)
      .text("QFI\xfb")
      .u32(3)                               // version
      .u64(kHeaderBytes + kExtensionBytes)  // where the backing file's name is
      .u32(static_cast<std::uint32_t>(backing.size()))
      .u32(static_cast<std::uint32_t>(std::countr_zero(kClusterBytes)))
      .u64(disk_bytes)
      .u32(0)  // no encryption
      .u32(static_cast<std::uint32_t>(level1_entries))
      .u64(kLevel1Table * kClusterBytes)
      .u64(kRefcountTable * kClusterBytes)
      .u32(1)  // clusters of the table of reference blocks
      .u32(0)  // no internal snapshots
      .u64(0)
      .u64(0)  // incompatible features
      .u64(0)  // compatible features
      .u64(0)  // automatically cleared features
      .u32(4)  // references are 2^4 bits wide
      .u32(static_cast<std::uint32_t>(kHeaderBytes))
      .u32(kBackingFormatExtension)
      .u32(3)
      .text(std::string_view("raw\0\0\0\0\0", 8))
      .u32(0)  // end of extensions
      .u32(0)
      .text(backing);
  store_be(image, kRefcountTable * kClusterBytes, kRefcountBlock * kClusterBytes);
  for (std::uint64_t i = 0; i < clusters; ++i) {
    store_be(image, kRefcountBlock * kClusterBytes + i * sizeof(std::uint16_t), std::uint16_t{1});
  }
  return image;
}

std::uint64_t overlay_limit_bytes(std::uint64_t disk_bytes) {
  std::uint64_t data = divide_up(disk_bytes, kClusterBytes);
  std::uint64_t level2 = divide_up(data, kEntriesPerCluster);
  std::uint64_t references = divide_up(data + level2, kClusterBytes / sizeof(std::uint16_t));
  // Clusters are taken from the end before freed ones are used again: leave room for that.
  constexpr std::uint64_t kSlack = 64;
  return (data + level2 + 2 * references + kLevel1Table + kSlack) * kClusterBytes + disk_bytes / 64;
}

}  // namespace space::node::vmm::qemu
