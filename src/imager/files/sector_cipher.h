// SPDX-License-Identifier: Apache-2.0
#pragma once
// AES-256-XTS over 4 KiB sectors: what lies on the local disk of a running sandbox is readable only while
// this process lives. The key is random, is never stored and dies with the object. Length-preserving, so
// there is no authentication: the local spool is trusted to return what was written, the sealed store is
// where tampering is found. Thread-safe.

#include <cstdint>
#include <memory>
#include <span>

#include "lib/base/bytes.h"
#include "lib/crypto/secret_bytes.h"
#include "lib/os/random.h"

namespace space::imager::files {

inline constexpr std::size_t kSectorBytes = 4096;

class SectorCipher {
 public:
  explicit SectorCipher(os::Random& random);

  // `in` and `out` have the same length, a multiple of kSectorBytes, and may be the same memory. `sector`
  // numbers the first one. The cipher has no failure but memory, which ends the process.
  void encrypt(std::uint64_t sector, ByteView in, std::span<std::byte> out) const;
  void decrypt(std::uint64_t sector, ByteView in, std::span<std::byte> out) const;

 private:
  crypto::SecretBytes key_;
};

}  // namespace space::imager::files
