// SPDX-License-Identifier: Apache-2.0
#pragma once
// A key service: holds the wrapping key of each tenant and never gives it away. Data keys are made, wrapped
// and unwrapped under it. Whoever controls the service controls whether a tenant's data can be read.
//
// Implementations: `local` (a directory, local_kms.h). Calls block; thread-safe.
// Errors: vault.key_unavailable (permission_denied: the tenant's key is gone or refuses),
// vault.key_unreachable (unavailable: try again), vault.malformed_key (data_loss: what was given wasn't
// wrapped by this service for this tenant).

#include "lib/base/bytes.h"
#include "lib/base/id.h"
#include "lib/base/result.h"
#include "lib/crypto/secret_bytes.h"

namespace space::vault::keys {

class Kms {
 public:
  virtual ~Kms() = default;
  // Wraps `key` (32 bytes) under the newest wrapping key of the tenant, which is made on first use.
  virtual Result<Bytes> wrap(const TenantId& tenant, const crypto::SecretBytes& key) = 0;
  // Opens what wrap() gave for the same tenant under any version of its wrapping key.
  virtual Result<crypto::SecretBytes> unwrap(const TenantId& tenant, ByteView wrapped) = 0;
};

}  // namespace space::vault::keys
