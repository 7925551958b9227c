// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names of the store's objects, and the small fixed-size ids in them. FORMAT.md lists them. Pure.

#include <array>
#include <compare>
#include <cstring>
#include <string>

#include "imager/store/types.h"
#include "lib/base/bytes.h"
#include "lib/os/random.h"

namespace space::imager::store {

// 16 random bytes, printed as 32 hex digits.
template <class Tag>
struct RandomId {
  std::array<std::byte, 16> bytes{};
  auto operator<=>(const RandomId&) const = default;
  [[nodiscard]] std::string hex() const { return to_hex(bytes); }
  static RandomId fresh(os::Random& random) {
    RandomId id;
    random.fill(id.bytes);
    return id;
  }
};
struct PackTag {};
struct KeyTag {};
using PackId = RandomId<PackTag>;
using KeyId = RandomId<KeyTag>;
template <class A, class Tag>
void fields(A& a, RandomId<Tag>& id) {
  a(id.bytes);
}

// Random ids and keyed hashes spread by themselves.
struct IdHash {
  template <class Tag>
  std::size_t operator()(const RandomId<Tag>& id) const {
    return static_cast<std::size_t>(load_le<std::uint64_t>(id.bytes.data()));
  }
  std::size_t operator()(const ContentId& id) const {
    return static_cast<std::size_t>(load_le<std::uint64_t>(id.data()));
  }
};

// Whose packs a reference means: the reading tenant's own, or the base images'.
enum class Realm : std::uint8_t { kOwn = 0, kBase = 1 };

inline std::string tenant_folder(const TenantId& tenant) {
  return "t/" + tenant.str();
}
inline std::string ring_name(const TenantId& tenant) {
  return tenant_folder(tenant) + "/ring";
}
inline std::string gc_name(const TenantId& tenant) {
  return tenant_folder(tenant) + "/gc";
}
inline std::string packs_folder(const TenantId& tenant) {
  return tenant_folder(tenant) + "/packs";
}
inline std::string pack_name(const TenantId& tenant, const PackId& id) {
  return packs_folder(tenant) + "/" + id.hex();
}
inline std::string roots_folder(const TenantId& tenant) {
  return tenant_folder(tenant) + "/roots";
}
inline std::string root_name(const TenantId& tenant, const SnapshotId& id) {
  return roots_folder(tenant) + "/" + id.str();
}
inline std::string heads_folder(const TenantId& tenant) {
  return tenant_folder(tenant) + "/heads";
}
inline std::string head_name(const TenantId& tenant, const SessionId& id) {
  return heads_folder(tenant) + "/" + id.str();
}
inline std::string history_folder(const TenantId& tenant) {
  return tenant_folder(tenant) + "/history";
}
inline std::string history_name(const TenantId& tenant, const SessionId& session, const std::string& hex) {
  return history_folder(tenant) + "/" + session.str() + "." + hex;
}
inline std::string prefetch_folder(const TenantId& tenant) {
  return tenant_folder(tenant) + "/prefetch";
}
inline std::string prefetch_name(const TenantId& tenant, const SnapshotId& id) {
  return prefetch_folder(tenant) + "/" + id.str();
}
inline std::string leases_folder(const TenantId& tenant) {
  return tenant_folder(tenant) + "/leases";
}

// The part after the last slash.
inline std::string base_name(const std::string& name) {
  return name.substr(name.rfind('/') + 1);
}

}  // namespace space::imager::store
