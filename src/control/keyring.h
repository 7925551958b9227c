// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who may call the API. Only hashes of keys are stored; a presented key is hashed and compared in constant
// time with every valid hash, so that neither content nor position of a match shows in the time taken. A
// revocation counts from the moment it returns: the list in memory is the one that is asked. Resource type;
// one loop. Posture: hostile-network.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/meta/rows.h"
#include "control/meta/store.h"
#include "lib/base/bytes.h"
#include "lib/base/clock.h"

namespace space::control {

// The tenant that exists until there are more.
inline const TenantId kDefaultTenant{"defaulttenant0001"};

// Lower-case hexadecimal.
std::string sha256_hex(std::string_view text);

class Keyring {
 public:
  Keyring(meta::Store& store, const Clock& clock) : store_(store), clock_(clock) {}

  // Loads the keys and makes the hash given at start the only administrator's key: an earlier one is revoked.
  // `admin_sha256`: 64 hexadecimal digits. Errors: control.bad_admin_key, those of the database.
  async::Task<Result<void>> load(std::string admin_sha256);
  // The tenant of a key; nothing when it is wrong or revoked.
  [[nodiscard]] std::optional<TenantId> tenant_of(std::string_view presented) const;
  // Errors: control.no_such_key.
  async::Task<Result<void>> revoke(TenantId tenant, std::string id);
  [[nodiscard]] const std::vector<meta::ApiKeyRow>& keys() const { return keys_; }

 private:
  meta::Store& store_;
  const Clock& clock_;
  std::vector<meta::ApiKeyRow> keys_;
};

}  // namespace space::control
