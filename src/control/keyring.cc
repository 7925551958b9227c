// SPDX-License-Identifier: Apache-2.0
#include "control/keyring.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "control/meta/operations.h"
#include "lib/base/check.h"

namespace space::control {
namespace {
constexpr std::string_view kAdminName = "admin";
constexpr std::size_t kMaxKeyBytes = 256;
}  // namespace

std::string sha256_hex(std::string_view text) {
  std::array<std::byte, 32> digest;
  unsigned size = 0;
  // SAFETY: SHA-256 writes 32 bytes; bytes alias.
  SPACE_CHECK(EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(digest.data()), &size,
                         EVP_sha256(), nullptr) == 1);
  return to_hex(digest);
}

async::Task<Result<void>> Keyring::load(std::string admin_sha256) {
  bool hex = admin_sha256.size() == 64 && std::all_of(admin_sha256.begin(), admin_sha256.end(), [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
             });
  if (!hex)
    co_return make_error(Code::kInvalidArgument, "control.bad_admin_key",
                         "the hash of the administrator's key must be 64 hexadecimal digits");
  WallTime now = clock_.wall();
  auto loaded = co_await store_.write(
      [admin_sha256, now](meta::Database& database) -> Result<std::vector<meta::ApiKeyRow>> {
        SPACE_CHECK_OK(meta::insert_tenant(database, kDefaultTenant, "default", now));
        SPACE_TRY(auto keys, meta::valid_api_keys(database, kDefaultTenant));
        bool known = false;
        for (const auto& key : keys) {
          if (key.name != kAdminName) continue;
          if (key.sha256 == admin_sha256)
            known = true;
          else
            SPACE_CHECK_OK(meta::revoke_api_key(database, kDefaultTenant, key.id, now));
        }
        if (!known) {
          // A number makes the id unique when the same key comes back after another one.
          std::string id = "admin" + std::to_string(meta::to_us(now)) + admin_sha256.substr(0, 8);
          SPACE_CHECK_OK(meta::insert_api_key(
              database, {kDefaultTenant, id, admin_sha256, std::string(kAdminName), std::nullopt}, now));
        }
        return meta::valid_api_keys(database, kDefaultTenant);
      });
  if (!loaded.ok()) co_return std::move(loaded).error();
  keys_ = std::move(*loaded);
  co_return Result<void>();
}

std::optional<TenantId> Keyring::tenant_of(std::string_view presented) const {
  if (presented.empty() || presented.size() > kMaxKeyBytes) return std::nullopt;
  std::string hash = sha256_hex(presented);
  const meta::ApiKeyRow* match = nullptr;
  for (const auto& key : keys_) {
    if (key.sha256.size() == hash.size() && CRYPTO_memcmp(key.sha256.data(), hash.data(), hash.size()) == 0)
      match = &key;
  }
  if (match == nullptr) return std::nullopt;
  return match->tenant;
}

async::Task<Result<void>> Keyring::revoke(TenantId tenant, std::string id) {
  WallTime now = clock_.wall();
  SPACE_CO_CHECK_OK(co_await store_.write([tenant, id, now](meta::Database& database) {
    return meta::revoke_api_key(database, tenant, id, now);
  }));
  std::erase_if(keys_, [&](const auto& key) { return key.tenant == tenant && key.id == id; });
  co_return Result<void>();
}

}  // namespace space::control
