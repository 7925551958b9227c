// SPDX-License-Identifier: Apache-2.0
#include "lib/crypto/secret_bytes.h"

#include <openssl/crypto.h>

namespace space::crypto {

void wipe(std::span<std::byte> memory) {
  if (!memory.empty()) OPENSSL_cleanse(memory.data(), memory.size());
}

bool equal_constant_time(ByteView a, ByteView b) {
  return a.size() == b.size() && (a.empty() || CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace space::crypto
