// SPDX-License-Identifier: Apache-2.0
#include "vault/keys/local_kms.h"

#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "lib/crypto/aead.h"
#include "lib/os/file.h"

namespace space::vault::keys {
namespace {

constexpr std::string_view kMagic = "SPWK";
constexpr std::size_t kHeaderBytes = 8;  // magic and version
constexpr std::size_t kSealedKeyBytes = crypto::kNonceBytes + crypto::kKeyBytes + crypto::kTagBytes;
constexpr std::size_t kWrappedBytes = kHeaderBytes + kSealedKeyBytes;
constexpr std::size_t kMaxVersions = 10'000;

Error malformed(const char* what) {
  return make_error(Code::kDataLoss, "vault.malformed_key", what);
}

// nonce | sealed, with `about` bound in.
Result<Bytes> seal(const crypto::SecretBytes& under, std::string_view about, const crypto::SecretBytes& key,
                   os::Random& random) {
  crypto::Nonce nonce;
  random.fill(nonce);
  SPACE_TRY(Bytes sealed, crypto::seal_once(under.view(), nonce, as_bytes(about), key.view()));
  Bytes out(nonce.begin(), nonce.end());
  out.insert(out.end(), sealed.begin(), sealed.end());
  return out;
}

Result<crypto::SecretBytes> open(const crypto::SecretBytes& under, std::string_view about, ByteView sealed) {
  if (sealed.size() != kSealedKeyBytes) return malformed("a sealed key has the wrong length");
  crypto::Nonce nonce;
  std::memcpy(nonce.data(), sealed.data(), nonce.size());
  auto plain = crypto::open_once(under.view(), nonce, as_bytes(about), sealed.subspan(nonce.size()));
  if (!plain.ok())
    return malformed("a sealed key was made under another key, for another tenant, or was changed");
  auto secret = crypto::SecretBytes::copy_of(*plain);
  crypto::wipe(*plain);
  return secret;
}

std::string about_version(const TenantId& tenant, std::size_t version) {
  return "space wrapping key " + tenant.str() + " " + std::to_string(version);
}
std::string about_data_key(const TenantId& tenant, std::size_t version) {
  return "space data key " + tenant.str() + " " + std::to_string(version);
}

class LocalKms final : public Kms {
 public:
  LocalKms(std::string directory, crypto::SecretBytes root, os::Random& random)
      : directory_(std::move(directory)), root_(std::move(root)), random_(random) {}

  Result<Bytes> wrap(const TenantId& tenant, const crypto::SecretBytes& key) override {
    if (key.size() != crypto::kKeyBytes)
      return make_error(Code::kInvalidArgument, "vault.malformed_key", "a data key has 32 bytes");
    std::lock_guard lock(mutex_);
    SPACE_TRY(auto* versions, versions_of(tenant));
    if (versions->empty()) SPACE_CHECK_OK(add_version(tenant, *versions));
    std::size_t version = versions->size();
    SPACE_TRY(Bytes sealed, seal(versions->back(), about_data_key(tenant, version), key, random_));
    Bytes wrapped(kHeaderBytes);
    std::memcpy(wrapped.data(), kMagic.data(), kMagic.size());
    store_le(wrapped.data() + 4, static_cast<std::uint32_t>(version));
    wrapped.insert(wrapped.end(), sealed.begin(), sealed.end());
    return wrapped;
  }

  Result<crypto::SecretBytes> unwrap(const TenantId& tenant, ByteView wrapped) override {
    if (wrapped.size() != kWrappedBytes || as_text(wrapped.first(4)) != kMagic)
      return malformed("not a wrapped key of this service");
    auto version = load_le<std::uint32_t>(wrapped.data() + 4);
    std::lock_guard lock(mutex_);
    SPACE_TRY(auto* versions, versions_of(tenant));
    if (version == 0 || version > versions->size()) {
      return make_error(Code::kPermissionDenied, "vault.key_unavailable",
                        "the tenant's wrapping key of that version is gone");
    }
    return open((*versions)[version - 1], about_data_key(tenant, version), wrapped.subspan(kHeaderBytes));
  }

 private:
  using Versions = std::vector<crypto::SecretBytes>;

  std::string file_of(const TenantId& tenant) const { return directory_ + "/" + tenant.str() + ".keys"; }

  Result<Versions*> versions_of(const TenantId& tenant) {
    if (!is_well_formed_id(tenant.str()))
      return make_error(Code::kInvalidArgument, "vault.malformed_tenant",
                        "a tenant's id is 16 to 40 characters of a-z and 0-9");
    auto it = tenants_.find(tenant);
    if (it != tenants_.end()) return &it->second;
    Versions versions;
    auto file = os::read_file(file_of(tenant), kMaxVersions * kSealedKeyBytes);
    if (!file.ok() && file.error().code != Code::kNotFound) return std::move(file).error();
    if (file.ok()) {
      if (file->empty() || file->size() % kSealedKeyBytes != 0)
        return malformed("a tenant's key file has the wrong length");
      for (std::size_t at = 0; at < file->size(); at += kSealedKeyBytes) {
        SPACE_TRY(auto key, open(root_, about_version(tenant, versions.size() + 1),
                                 as_bytes(*file).subspan(at, kSealedKeyBytes)));
        versions.push_back(std::move(key));
      }
    }
    return &tenants_.emplace(tenant, std::move(versions)).first->second;
  }

  // Durable before it is used: a key that wraps and isn't on disk would lose what it wrapped.
  Result<void> add_version(const TenantId& tenant, Versions& versions) {
    crypto::SecretBytes key(crypto::kKeyBytes);
    random_.fill(key.writable());
    auto before = os::read_file(file_of(tenant), kMaxVersions * kSealedKeyBytes);
    std::string content = before.ok() ? std::move(*before) : std::string();
    SPACE_TRY(Bytes sealed, seal(root_, about_version(tenant, versions.size() + 1), key, random_));
    content += as_text(sealed);
    SPACE_CHECK_OK(os::write_file_atomic(file_of(tenant), content, os::Durability::kSynced, 0600));
    versions.push_back(std::move(key));
    return {};
  }

  std::string directory_;
  crypto::SecretBytes root_;
  os::Random& random_;
  std::mutex mutex_;
  std::unordered_map<TenantId, Versions> tenants_;
};

}  // namespace

Result<std::unique_ptr<Kms>> open_local_kms(std::string directory, os::Random& random) {
  std::string path = directory + "/root.key";
  auto file = os::read_file(path, 4096);
  if (!file.ok() && file.error().code != Code::kNotFound) return std::move(file).error();
  crypto::SecretBytes root(crypto::kKeyBytes);
  if (!file.ok()) {
    SPACE_TRY(auto names, os::list_directory(directory));
    for (const auto& name : names) {
      if (name.ends_with(".keys")) {
        return make_error(Code::kDataLoss, "vault.root_key",
                          path + " is missing while tenants' keys are there: put it back from its backup");
      }
    }
    random.fill(root.writable());
    SPACE_CHECK_OK(os::write_file_atomic(path, as_text(root.view()), os::Durability::kSynced, 0400));
  } else {
    if (file->size() != crypto::kKeyBytes)
      return make_error(Code::kDataLoss, "vault.root_key", path + " must have 32 bytes");
    root = crypto::SecretBytes::copy_of(as_bytes(*file));
    crypto::wipe(std::as_writable_bytes(std::span(*file)));
  }
  return std::unique_ptr<Kms>(std::make_unique<LocalKms>(std::move(directory), std::move(root), random));
}

}  // namespace space::vault::keys
