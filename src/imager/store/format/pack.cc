// SPDX-License-Identifier: Apache-2.0
#include "imager/store/format/pack.h"

#include <lz4.h>

#include <cstring>

namespace space::imager::store {
namespace {

constexpr char kPackMagic[8] = {'S', 'P', 'C', 'P', 'A', 'C', 'K', '1'};
constexpr char kTrailerMagic[8] = {'S', 'P', 'C', 'P', 'K', 'E', 'N', 'D'};
constexpr std::uint32_t kFrameMagic = 0x31524653;  // "SFR1"
constexpr std::uint16_t kVersion = 1;
constexpr std::string_view kPurpose = "space.store.pack.v1";

Error malformed(const char* why) {
  return make_error(Code::kDataLoss, "store.malformed", why);
}

void encode_frame_header(const FrameHeader& header, std::byte* at) {
  store_le(at, kFrameMagic);
  store_le(at + 4, header.stored);
  store_le(at + 8, header.plain);
  at[12] = static_cast<std::byte>(header.kind);
  at[13] = static_cast<std::byte>(header.codec);
  store_le(at + 14, std::uint16_t{0});
}

Bytes associated_data(const PackKey& key, ByteView frame_header, std::uint32_t offset) {
  Bytes out = key.bound;
  out.insert(out.end(), frame_header.begin(), frame_header.end());
  std::byte raw[4];
  store_le(raw, offset);
  out.insert(out.end(), raw, raw + 4);
  return out;
}

crypto::Nonce frame_nonce(FrameKind kind, std::uint32_t offset) {
  return crypto::counted_nonce(static_cast<std::uint32_t>(kind), offset);
}

}  // namespace

template <class A>
void fields(A& a, FooterFrame& frame) {
  a(frame.offset);
  a(frame.stored);
  a(frame.plain);
  a(frame.kind);
  a(frame.ids);
}

Result<PackHeader> decode_pack_header(ByteView bytes) {
  if (bytes.size() < kPackHeaderBytes) return malformed("pack is shorter than its header");
  if (std::memcmp(bytes.data(), kPackMagic, sizeof kPackMagic) != 0) return malformed("not a pack");
  if (load_le<std::uint16_t>(bytes.data() + 8) != kVersion)
    return malformed("unknown version of the pack format");
  PackHeader header;
  std::copy_n(bytes.begin() + 16, 16, header.key.bytes.begin());
  std::copy_n(bytes.begin() + 32, 16, header.id.bytes.begin());
  std::copy_n(bytes.begin() + 48, 32, header.salt.begin());
  return header;
}

Result<FrameHeader> decode_frame_header(ByteView bytes) {
  if (bytes.size() < kFrameHeaderBytes || load_le<std::uint32_t>(bytes.data()) != kFrameMagic) {
    return malformed("not a frame");
  }
  FrameHeader header;
  header.stored = load_le<std::uint32_t>(bytes.data() + 4);
  header.plain = load_le<std::uint32_t>(bytes.data() + 8);
  header.kind = static_cast<FrameKind>(bytes[12]);
  header.codec = static_cast<Compression>(bytes[13]);
  std::size_t most = header.kind == FrameKind::kFooter ? kMaxFooterPlainBytes : kMaxFramePlainBytes;
  if (header.kind > FrameKind::kFooter || header.codec > Compression::kLz4 || header.plain == 0 ||
      header.plain > most || header.stored < kFrameHeaderBytes + crypto::kTagBytes ||
      header.stored > kFrameHeaderBytes + most + crypto::kTagBytes ||
      load_le<std::uint16_t>(bytes.data() + 14) != 0) {
    return malformed("frame header makes no sense");
  }
  return header;
}

Result<PackTrailer> decode_pack_trailer(ByteView bytes, std::uint64_t pack_bytes) {
  if (bytes.size() != kPackTrailerBytes ||
      std::memcmp(bytes.data() + 8, kTrailerMagic, sizeof kTrailerMagic) != 0) {
    return malformed("pack has no end");
  }
  PackTrailer trailer{load_le<std::uint32_t>(bytes.data()), load_le<std::uint32_t>(bytes.data() + 4)};
  if (trailer.footer_offset < kPackHeaderBytes || trailer.footer_stored > kMaxFooterPlainBytes + 32 ||
      std::uint64_t{trailer.footer_offset} + trailer.footer_stored + kPackTrailerBytes != pack_bytes) {
    return malformed("footer doesn't fit into its pack");
  }
  return trailer;
}

Bytes encode_footer(const std::vector<FooterFrame>& frames) {
  return encode(frames);
}

Result<std::vector<FooterFrame>> decode_footer(ByteView plain) {
  SPACE_TRY(auto frames, decode<std::vector<FooterFrame>>(plain));
  for (const FooterFrame& frame : frames) {
    if (frame.kind > FrameKind::kBlob || frame.ids.empty() || frame.ids.size() > 256 || frame.plain == 0 ||
        frame.plain > kMaxFramePlainBytes || frame.plain % frame.ids.size() != 0 ||
        frame.stored > kMaxFrameStoredBytes) {
      return malformed("footer makes no sense");
    }
  }
  return frames;
}

Result<void> decompress(Compression codec, ByteView packed, std::span<std::byte> plain, ZSTD_DCtx* context) {
  switch (codec) {
    case Compression::kNone:
      if (packed.size() != plain.size()) return malformed("frame has the wrong length");
      std::copy(packed.begin(), packed.end(), plain.begin());
      return {};
    case Compression::kZstd1: {
      std::size_t got =
          ZSTD_decompressDCtx(context, plain.data(), plain.size(), packed.data(), packed.size());
      if (ZSTD_isError(got) != 0 || got != plain.size()) return malformed("frame doesn't decompress");
      return {};
    }
    case Compression::kLz4: {
      // SAFETY: char may alias bytes.
      int got = LZ4_decompress_safe(reinterpret_cast<const char*>(packed.data()),
                                    reinterpret_cast<char*>(plain.data()), static_cast<int>(packed.size()),
                                    static_cast<int>(plain.size()));
      if (got < 0 || static_cast<std::size_t>(got) != plain.size())
        return malformed("frame doesn't decompress");
      return {};
    }
  }
  return malformed("unknown codec");
}

Result<PackKey> derive_pack_key(const Keys& keys, ByteView header_bytes, const PackHeader& header) {
  PackKey key;
  SPACE_TRY(key.key, keys.object_key(header.key, header.salt, kPurpose));
  Encoder bound;
  bound.raw(header_bytes.first(kPackHeaderBytes));
  bound(keys.tenant());
  key.bound = bound.take();
  return key;
}

Result<PackBuilder> PackBuilder::start(const Keys& keys, os::Random& random, Compression compression) {
  PackBuilder builder;
  builder.header_.key = keys.sealing_id();
  builder.header_.id = PackId::fresh(random);
  random.fill(builder.header_.salt);
  Bytes& bytes = builder.bytes_;
  bytes.resize(kPackHeaderBytes);
  std::memcpy(bytes.data(), kPackMagic, sizeof kPackMagic);
  store_le(bytes.data() + 8, kVersion);
  std::copy(builder.header_.key.bytes.begin(), builder.header_.key.bytes.end(), bytes.begin() + 16);
  std::copy(builder.header_.id.bytes.begin(), builder.header_.id.bytes.end(), bytes.begin() + 32);
  std::copy(builder.header_.salt.begin(), builder.header_.salt.end(), bytes.begin() + 48);
  SPACE_TRY(builder.key_, derive_pack_key(keys, bytes, builder.header_));
  SPACE_CHECK_OK(builder.aead_.set_key(builder.key_.key.view()));
  builder.compression_ = compression;
  if (compression == Compression::kZstd1) {
    builder.zstd_.reset(ZSTD_createCCtx());
    if (!builder.zstd_) return make_error(Code::kInternal, "store.compress", "zstd has no context");
    ZSTD_CCtx_setParameter(builder.zstd_.get(), ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(builder.zstd_.get(), ZSTD_c_contentSizeFlag, 0);
  }
  builder.scratch_.resize(kMaxFramePlainBytes);
  return builder;
}

// Bytes of the compressed form in scratch_, or 0 when it isn't at least an eighth shorter.
std::size_t PackBuilder::compress(ByteView plain) {
  std::size_t worth = plain.size() - plain.size() / 8;
  if (compression_ == Compression::kZstd1) {
    std::size_t got = ZSTD_compress2(zstd_.get(), scratch_.data(), worth, plain.data(), plain.size());
    return ZSTD_isError(got) != 0 ? 0 : got;
  }
  if (compression_ == Compression::kLz4) {
    // SAFETY: char may alias bytes.
    int got = LZ4_compress_default(reinterpret_cast<const char*>(plain.data()),
                                   reinterpret_cast<char*>(scratch_.data()), static_cast<int>(plain.size()),
                                   static_cast<int>(worth));
    return got <= 0 ? 0 : static_cast<std::size_t>(got);
  }
  return 0;
}

Result<FrameRef> PackBuilder::add(FrameKind kind, ByteView plain, std::span<const ContentId> ids) {
  if (plain.empty() || plain.size() > kMaxFramePlainBytes ||
      bytes_.size() + kMaxFrameStoredBytes > kMaxPackBytes) {
    return make_error(Code::kInternal, "store.frame_size", "frame or pack too large");
  }
  // Ids don't compress, and tree nodes are mostly ids.
  std::size_t packed = kind == FrameKind::kNode ? 0 : compress(plain);
  SPACE_TRY(FrameRef ref, packed != 0
                              ? append(kind, compression_, ByteView(scratch_).first(packed), plain.size())
                              : append(kind, Compression::kNone, plain, plain.size()));
  frames_.push_back({ref.offset, ref.stored, static_cast<std::uint32_t>(plain.size()), kind,
                     std::vector<ContentId>(ids.begin(), ids.end())});
  return ref;
}

Result<FrameRef> PackBuilder::append(FrameKind kind, Compression codec, ByteView packed,
                                     std::size_t plain_bytes) {
  auto offset = static_cast<std::uint32_t>(bytes_.size());
  auto stored = static_cast<std::uint32_t>(kFrameHeaderBytes + packed.size() + crypto::kTagBytes);
  bytes_.resize(offset + stored);
  std::byte* at = bytes_.data() + offset;
  encode_frame_header({stored, static_cast<std::uint32_t>(plain_bytes), kind, codec}, at);
  Bytes associated = associated_data(key_, {at, kFrameHeaderBytes}, offset);
  SPACE_CHECK_OK(aead_.seal(frame_nonce(kind, offset), associated, packed,
                            {at + kFrameHeaderBytes, packed.size() + crypto::kTagBytes}));
  return FrameRef{Realm::kOwn, header_.id, offset, stored};
}

Result<Bytes> PackBuilder::finish() {
  Bytes footer = encode_footer(frames_);
  if (footer.size() > kMaxFooterPlainBytes)
    return make_error(Code::kInternal, "store.frame_size", "footer too large");
  SPACE_TRY(FrameRef ref, append(FrameKind::kFooter, Compression::kNone, footer, footer.size()));
  std::byte trailer[kPackTrailerBytes];
  store_le(trailer, ref.offset);
  store_le(trailer + 4, ref.stored);
  std::memcpy(trailer + 8, kTrailerMagic, sizeof kTrailerMagic);
  bytes_.insert(bytes_.end(), trailer, trailer + kPackTrailerBytes);
  return std::move(bytes_);
}

FrameOpener::FrameOpener() : zstd_(ZSTD_createDCtx()) {}

Result<Bytes> FrameOpener::open(const PackKey& key, std::uint32_t offset, ByteView frame, FrameKind kind) {
  SPACE_TRY(FrameHeader header, decode_frame_header(frame));
  if (header.stored != frame.size()) return malformed("frame has another length than its reference says");
  if (header.kind != kind) return malformed("frame is of another kind");
  associated_ = key.bound;
  associated_.insert(associated_.end(), frame.begin(), frame.begin() + kFrameHeaderBytes);
  std::byte raw[4];
  store_le(raw, offset);
  associated_.insert(associated_.end(), raw, raw + 4);
  SPACE_CHECK_OK(aead_.set_key(key.key.view()));
  ByteView sealed = frame.subspan(kFrameHeaderBytes);
  std::size_t packed = sealed.size() - crypto::kTagBytes;
  Bytes plain(header.plain);
  if (header.codec == Compression::kNone) {
    if (packed != plain.size()) return malformed("frame has the wrong length");
    SPACE_CHECK_OK(aead_.open(frame_nonce(kind, offset), associated_, sealed, plain));
    return plain;
  }
  scratch_.resize(packed);
  SPACE_CHECK_OK(aead_.open(frame_nonce(kind, offset), associated_, sealed, scratch_));
  SPACE_CHECK_OK(decompress(header.codec, scratch_, plain, zstd_.get()));
  return plain;
}

}  // namespace space::imager::store
