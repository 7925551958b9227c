// SPDX-License-Identifier: Apache-2.0
#pragma once
// Packs: immutable objects of sealed, compressed frames. FORMAT.md section 3 has the bytes.
//
// Each pack is sealed under its own key, HKDF(data key, 32 random bytes of the pack's header), that never
// meets another pack; the nonce is the frame's offset. Associated data binds header (format, key, pack id,
// salt), tenant, frame header (kind, codec, lengths) and offset. A reference to a frame carries offset and
// length, so reading one needs no footer; footers list the content ids in a pack, for the duplicate index and
// for scrubbing.
//
// Pure but for randomness. Posture: hostile (the disk). Builder and opener are resources of one thread.

#include <zstd.h>

#include <memory>
#include <span>

#include "imager/store/format/codec.h"
#include "imager/store/format/key_ring.h"
#include "imager/store/store.h"

namespace space::imager::store {

inline constexpr std::size_t kPackHeaderBytes = 80;
inline constexpr std::size_t kPackTrailerBytes = 16;
inline constexpr std::size_t kFrameHeaderBytes = 16;
inline constexpr std::size_t kMaxFramePlainBytes = 64u << 10;
inline constexpr std::size_t kMaxFrameStoredBytes =
    kFrameHeaderBytes + kMaxFramePlainBytes + crypto::kTagBytes;  // what doesn't shrink is stored as it is
inline constexpr std::size_t kMaxFooterPlainBytes = 4u << 20;
inline constexpr std::size_t kMaxPackBytes = 32u << 20;

enum class FrameKind : std::uint8_t { kUnits = 0, kNode = 1, kBlob = 2, kFooter = 3 };

// Where a frame is. `stored` counts its header and tag.
struct FrameRef {
  Realm realm = Realm::kOwn;
  PackId pack;
  std::uint32_t offset = 0;
  std::uint32_t stored = 0;
  bool operator==(const FrameRef&) const = default;
};
template <class A>
void fields(A& a, FrameRef& ref) {
  a(ref.realm);
  a(ref.pack);
  a(ref.offset);
  a(ref.stored);
}

struct PackHeader {
  KeyId key;
  PackId id;
  std::array<std::byte, 32> salt{};
};
// Errors of the decoders here: store.malformed.
Result<PackHeader> decode_pack_header(ByteView bytes);

struct FrameHeader {
  std::uint32_t stored = 0;
  std::uint32_t plain = 0;
  FrameKind kind{};
  Compression codec{};
};
Result<FrameHeader> decode_frame_header(ByteView bytes);

struct PackTrailer {
  std::uint32_t footer_offset = 0;
  std::uint32_t footer_stored = 0;
};
Result<PackTrailer> decode_pack_trailer(ByteView bytes, std::uint64_t pack_bytes);

// One frame in a footer; `ids` are the contents in it, in slots of equal size.
struct FooterFrame {
  std::uint32_t offset = 0;
  std::uint32_t stored = 0;
  std::uint32_t plain = 0;
  FrameKind kind{};
  std::vector<ContentId> ids;
};
Bytes encode_footer(const std::vector<FooterFrame>& frames);
Result<std::vector<FooterFrame>> decode_footer(ByteView plain);

// Inverse of the frame's codec; `plain_bytes` is what the header promised. Errors: store.malformed.
Result<void> decompress(Compression codec, ByteView packed, std::span<std::byte> plain, ZSTD_DCtx* context);

// Key and bound context of one pack.
struct PackKey {
  crypto::SecretBytes key;
  Bytes bound;  // header and tenant: the head of every frame's associated data
};
Result<PackKey> derive_pack_key(const Keys& keys, ByteView header_bytes, const PackHeader& header);

class PackBuilder {
 public:
  // `keys` must outlive the builder.
  static Result<PackBuilder> start(const Keys& keys, os::Random& random, Compression compression);

  // Appends `plain` (1..kMaxFramePlainBytes) whose slots hold contents with `ids`.
  Result<FrameRef> add(FrameKind kind, ByteView plain, std::span<const ContentId> ids);
  [[nodiscard]] const PackId& id() const { return header_.id; }
  [[nodiscard]] std::size_t bytes() const { return bytes_.size(); }
  [[nodiscard]] bool empty() const { return frames_.empty(); }
  // The whole object. Ends the builder.
  Result<Bytes> finish();

 private:
  struct FreeZstd {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  };
  PackBuilder() = default;
  Result<FrameRef> append(FrameKind kind, Compression codec, ByteView packed, std::size_t plain_bytes);
  std::size_t compress(ByteView plain);

  PackHeader header_;
  PackKey key_;
  crypto::Aead aead_;
  Compression compression_{};
  std::unique_ptr<ZSTD_CCtx, FreeZstd> zstd_;
  Bytes scratch_;
  Bytes bytes_;
  std::vector<FooterFrame> frames_;
};

// Opens sealed frames; reuses its contexts.
class FrameOpener {
 public:
  FrameOpener();
  // `frame` is the frame as stored, at `offset` of its pack. Errors: store.malformed, crypto.not_authentic.
  Result<Bytes> open(const PackKey& key, std::uint32_t offset, ByteView frame, FrameKind kind);

 private:
  struct FreeZstd {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  crypto::Aead aead_;
  std::unique_ptr<ZSTD_DCtx, FreeZstd> zstd_;
  Bytes scratch_;
  Bytes associated_;
};

}  // namespace space::imager::store
