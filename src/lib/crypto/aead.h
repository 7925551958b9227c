// SPDX-License-Identifier: Apache-2.0
#pragma once
// AES-256-GCM with associated data.
//
// An Aead owns one OpenSSL context per direction and one key, so that sealing many frames costs a nonce and
// the bytes (measured 4 GB/s on 64 KiB), not a set-up. One key must never see one nonce twice: callers use
// either a fresh key per object with counted nonces, or random nonces and at most 2^32 messages.
//
// Resource type. Not thread-safe: each thread has its own.

#include <array>
#include <memory>

#include "lib/base/bytes.h"
#include "lib/base/result.h"
#include "lib/crypto/secret_bytes.h"

namespace space::crypto {

inline constexpr std::size_t kKeyBytes = 32;
inline constexpr std::size_t kNonceBytes = 12;
inline constexpr std::size_t kTagBytes = 16;
// One message; GCM itself ends at 64 GiB, nothing of ours comes near.
inline constexpr std::size_t kMaxMessageBytes = 1u << 30;

using Nonce = std::array<std::byte, kNonceBytes>;
// `counter` in the last eight bytes, `domain` in the first four: for keys that live as long as one object.
Nonce counted_nonce(std::uint32_t domain, std::uint64_t counter);

class Aead {
 public:
  Aead();
  ~Aead();
  Aead(Aead&&) noexcept;
  Aead& operator=(Aead&&) noexcept;

  // `key` has kKeyBytes. May be called again for another key; the contexts are reused.
  Result<void> set_key(ByteView key);

  // Writes plain.size() + kTagBytes bytes to `out`, which may start at plain.data().
  // Errors: crypto.failed (library or lengths), never data dependent.
  Result<void> seal(const Nonce& nonce, ByteView associated, ByteView plain, std::span<std::byte> out);

  // Writes sealed.size() - kTagBytes bytes to `out`, which may start at sealed.data(). On error `out` is
  // wiped. Errors: crypto.not_authentic (data_loss) when any byte of key, nonce, associated data or text
  // differs.
  Result<void> open(const Nonce& nonce, ByteView associated, ByteView sealed, std::span<std::byte> out);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
};

// seal() and open() for single messages.
Result<Bytes> seal_once(ByteView key, const Nonce& nonce, ByteView associated, ByteView plain);
Result<Bytes> open_once(ByteView key, const Nonce& nonce, ByteView associated, ByteView sealed);

}  // namespace space::crypto
