// SPDX-License-Identifier: Apache-2.0
#pragma once
// The embedded default: one root key in a file, one file of wrapping keys per tenant, sealed under the root
// key.
//
//   root.key         32 bytes, 0400, made once. Losing it loses everything that was ever sealed: back it up
//   apart <tenant>.keys    versions of the tenant's wrapping key, each sealed; the last one wraps
//
// A wrapped data key is  magic "SPWK" | u32 version | 12 B nonce | sealed 32 B + tag, with tenant and version
// as associated data. Resource type; thread-safe.

#include <memory>
#include <string>

#include "lib/os/random.h"
#include "vault/keys/kms.h"

namespace space::vault::keys {

// `directory` exists and belongs to this process's user. Errors: os.file; vault.root_key (malformed, or
// missing while tenants' keys are there: then a new one would only hide the loss).
Result<std::unique_ptr<Kms>> open_local_kms(std::string directory, os::Random& random);

}  // namespace space::vault::keys
