// SPDX-License-Identifier: Apache-2.0
#pragma once
// SHA-256, HMAC-SHA-256 and the keyed content id built from both.
//
// Content ids are HMAC-SHA-256(key, domain || SHA-256(content)), cut to 16 bytes. The plain digest first, the
// key second: the digest of a page is computed once at the full speed of the SHA instructions (measured 1.6
// GB/s a core) and can then be named under several keys (a tenant's and the base images') for the price of
// two compressions each, because the key's inner and outer states are kept. Whoever lacks the key learns
// nothing from an id, and nobody who cannot break SHA-256 makes two contents share one.

#include <array>
#include <cstdint>
#include <span>

#include "lib/base/bytes.h"
#include "lib/base/result.h"
#include "lib/crypto/secret_bytes.h"

namespace space::crypto {

inline constexpr std::size_t kDigestBytes = 32;
inline constexpr std::size_t kContentIdBytes = 16;
using Digest = std::array<std::byte, kDigestBytes>;
using ContentId = std::array<std::byte, kContentIdBytes>;

Digest sha256(ByteView data);
// Several in a row; `out` has one place for each of `parts`.
void sha256_batch(std::span<const ByteView> parts, std::span<Digest> out);

// HMAC-SHA-256 with the key's states kept. Thread-safe once constructed. Holds key material: wiped at the
// end.
class KeyedHash {
 public:
  explicit KeyedHash(ByteView key);  // any length
  ~KeyedHash();
  KeyedHash(const KeyedHash&) = delete;
  KeyedHash& operator=(const KeyedHash&) = delete;

  [[nodiscard]] Digest mac(ByteView data) const;
  // The id of content with `digest`; `domain` separates kinds of content.
  [[nodiscard]] ContentId content_id(std::uint8_t domain, const Digest& digest) const;

 private:
  struct State {
    alignas(16) std::array<std::byte, 128> bytes;  // an OpenSSL SHA256_CTX
  };
  State inner_;
  State outer_;
};

// HKDF-SHA-256 (RFC 5869): `bytes` of key (at most 255 * 32) from secret input.
// Errors: crypto.failed.
Result<SecretBytes> hkdf_sha256(ByteView secret, ByteView salt, ByteView info, std::size_t bytes);

}  // namespace space::crypto
