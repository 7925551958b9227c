// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where data keys come from. The vault implements it (src/vault/keys behind its socket); tests keep keys in
// memory.
//
// A data key is 32 random bytes that seal a tenant's packs, records and heads. The store keeps it only
// wrapped, in the tenant's key ring; whoever holds the wrapping key decides who can read. Which wrapping key
// was used is the provider's own matter and travels inside the wrapped bytes, so that rotation is unwrap +
// wrap.
//
// Errors of every call
//   store.key_unavailable  (permission_denied)  the tenant's key is revoked or gone: nothing of the tenant
//   opens store.key_unreachable  (unavailable)        the key service doesn't answer: try again
// Calls may block and may come from any thread.

#include "lib/base/bytes.h"
#include "lib/base/id.h"
#include "lib/base/result.h"
#include "lib/crypto/secret_bytes.h"

namespace space::imager::store {

struct GeneratedKey {
  crypto::SecretBytes key;  // 32 bytes
  Bytes wrapped;            // at most kMaxWrappedBytes
};
inline constexpr std::size_t kMaxWrappedBytes = 4096;

class KeyProvider {
 public:
  virtual ~KeyProvider() = default;
  // A fresh data key, wrapped under the tenant's present wrapping key.
  virtual Result<GeneratedKey> generate(const TenantId& tenant) = 0;
  // Wraps a data key under the tenant's present wrapping key.
  virtual Result<Bytes> wrap(const TenantId& tenant, const crypto::SecretBytes& key) = 0;
  // Opens what generate() or wrap() made for the same tenant, under the present or an older wrapping key.
  virtual Result<crypto::SecretBytes> unwrap(const TenantId& tenant, ByteView wrapped) = 0;
};

}  // namespace space::imager::store
