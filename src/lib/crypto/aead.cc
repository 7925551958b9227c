// SPDX-License-Identifier: Apache-2.0
#include "lib/crypto/aead.h"

#include <openssl/evp.h>

#include <algorithm>

namespace space::crypto {
namespace {

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
struct FreeCipher {
  void operator()(EVP_CIPHER* cipher) const { EVP_CIPHER_free(cipher); }
};

Error failed(const char* what) {
  return make_error(Code::kInternal, "crypto.failed", std::string("AES-256-GCM: ") + what);
}

// SAFETY (all three): unsigned char may alias std::byte.
const unsigned char* raw(ByteView bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* raw(std::span<std::byte> bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}
const unsigned char* raw(const Nonce& nonce) {
  return reinterpret_cast<const unsigned char*>(nonce.data());
}

}  // namespace

struct Aead::Contexts {
  std::unique_ptr<EVP_CIPHER, FreeCipher> cipher{EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr)};
  std::unique_ptr<EVP_CIPHER_CTX, FreeContext> sealing{EVP_CIPHER_CTX_new()};
  std::unique_ptr<EVP_CIPHER_CTX, FreeContext> opening{EVP_CIPHER_CTX_new()};
  bool keyed = false;
};

Aead::Aead() : contexts_(std::make_unique<Contexts>()) {}
Aead::~Aead() = default;
Aead::Aead(Aead&&) noexcept = default;
Aead& Aead::operator=(Aead&&) noexcept = default;

Nonce counted_nonce(std::uint32_t domain, std::uint64_t counter) {
  Nonce nonce;
  store_le(nonce.data(), domain);
  store_le(nonce.data() + 4, counter);
  return nonce;
}

Result<void> Aead::set_key(ByteView key) {
  Contexts& c = *contexts_;
  if (!c.cipher || !c.sealing || !c.opening) return failed("no context");
  if (key.size() != kKeyBytes) return failed("key has the wrong length");
  c.keyed = EVP_EncryptInit_ex2(c.sealing.get(), c.cipher.get(), raw(key), nullptr, nullptr) == 1 &&
            EVP_DecryptInit_ex2(c.opening.get(), c.cipher.get(), raw(key), nullptr, nullptr) == 1;
  if (!c.keyed) return failed("cannot set the key");
  return {};
}

Result<void> Aead::seal(const Nonce& nonce, ByteView associated, ByteView plain, std::span<std::byte> out) {
  if (!contexts_->keyed) return failed("no key");
  if (plain.size() > kMaxMessageBytes || associated.size() > kMaxMessageBytes)
    return failed("message too long");
  if (out.size() != plain.size() + kTagBytes) return failed("output has the wrong length");
  EVP_CIPHER_CTX* context = contexts_->sealing.get();
  int length = 0;
  if (EVP_EncryptInit_ex2(context, nullptr, nullptr, raw(nonce), nullptr) != 1) return failed("nonce");
  if (!associated.empty() && EVP_EncryptUpdate(context, nullptr, &length, raw(associated),
                                               static_cast<int>(associated.size())) != 1) {
    return failed("associated data");
  }
  if (!plain.empty() &&
      EVP_EncryptUpdate(context, raw(out), &length, raw(plain), static_cast<int>(plain.size())) != 1) {
    return failed("encrypt");
  }
  std::span<std::byte> tag = out.subspan(plain.size());
  if (EVP_EncryptFinal_ex(context, raw(tag), &length) != 1 ||
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag.data()) != 1) {
    return failed("finish");
  }
  return {};
}

Result<void> Aead::open(const Nonce& nonce, ByteView associated, ByteView sealed, std::span<std::byte> out) {
  if (!contexts_->keyed) return failed("no key");
  if (sealed.size() < kTagBytes) {
    return make_error(Code::kDataLoss, "crypto.not_authentic", "sealed message is shorter than its tag");
  }
  std::size_t size = sealed.size() - kTagBytes;
  if (size > kMaxMessageBytes || associated.size() > kMaxMessageBytes) return failed("message too long");
  if (out.size() != size) return failed("output has the wrong length");
  std::array<std::byte, kTagBytes> tag;  // a copy: `out` may overlap the sealed text
  std::copy(sealed.end() - kTagBytes, sealed.end(), tag.begin());
  EVP_CIPHER_CTX* context = contexts_->opening.get();
  int length = 0;
  if (EVP_DecryptInit_ex2(context, nullptr, nullptr, raw(nonce), nullptr) != 1) return failed("nonce");
  if (!associated.empty() && EVP_DecryptUpdate(context, nullptr, &length, raw(associated),
                                               static_cast<int>(associated.size())) != 1) {
    return failed("associated data");
  }
  if (size != 0 && EVP_DecryptUpdate(context, raw(out), &length, raw(sealed), static_cast<int>(size)) != 1) {
    wipe(out);
    return failed("decrypt");
  }
  unsigned char unused[kTagBytes];
  if (EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, kTagBytes, tag.data()) != 1) return failed("tag");
  if (EVP_DecryptFinal_ex(context, unused, &length) != 1) {
    wipe(out);
    return make_error(Code::kDataLoss, "crypto.not_authentic", "sealed bytes or their context were changed");
  }
  return {};
}

Result<Bytes> seal_once(ByteView key, const Nonce& nonce, ByteView associated, ByteView plain) {
  Aead aead;
  SPACE_CHECK_OK(aead.set_key(key));
  Bytes out(plain.size() + kTagBytes);
  SPACE_CHECK_OK(aead.seal(nonce, associated, plain, out));
  return out;
}

Result<Bytes> open_once(ByteView key, const Nonce& nonce, ByteView associated, ByteView sealed) {
  Aead aead;
  SPACE_CHECK_OK(aead.set_key(key));
  Bytes out(sealed.size() < kTagBytes ? 0 : sealed.size() - kTagBytes);
  SPACE_CHECK_OK(aead.open(nonce, associated, sealed, out));
  return out;
}

}  // namespace space::crypto
