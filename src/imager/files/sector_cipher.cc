// SPDX-License-Identifier: Apache-2.0
#include "imager/files/sector_cipher.h"

#include <openssl/evp.h>

#include <array>

#include "lib/base/check.h"

namespace space::imager::files {
namespace {

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
struct FreeCipher {
  void operator()(EVP_CIPHER* cipher) const { EVP_CIPHER_free(cipher); }
};

void run(const crypto::SecretBytes& key, int encrypt, std::uint64_t sector, ByteView in,
         std::span<std::byte> out) {
  SPACE_CHECK(in.size() == out.size() && in.size() % kSectorBytes == 0);
  // Fetching a cipher and making a context cost more than a sector; each thread keeps its own.
  thread_local std::unique_ptr<EVP_CIPHER, FreeCipher> cipher(
      EVP_CIPHER_fetch(nullptr, "AES-256-XTS", nullptr));
  thread_local std::unique_ptr<EVP_CIPHER_CTX, FreeContext> context(EVP_CIPHER_CTX_new());
  SPACE_CHECK(cipher && context);
  const auto* secret = reinterpret_cast<const unsigned char*>(key.view().data());  // SAFETY: bytes alias
  SPACE_CHECK(EVP_CipherInit_ex2(context.get(), cipher.get(), secret, nullptr, encrypt, nullptr) == 1);
  for (std::size_t at = 0; at < in.size(); at += kSectorBytes, ++sector) {
    std::array<unsigned char, 16> tweak{};
    for (int i = 0; i < 8; ++i)
      tweak[static_cast<std::size_t>(i)] = static_cast<unsigned char>(sector >> (8 * i));
    int done = 0;
    auto* to = reinterpret_cast<unsigned char*>(out.data() + at);               // SAFETY: bytes alias
    const auto* from = reinterpret_cast<const unsigned char*>(in.data() + at);  // SAFETY: bytes alias
    SPACE_CHECK(EVP_CipherInit_ex2(context.get(), nullptr, nullptr, tweak.data(), encrypt, nullptr) == 1);
    SPACE_CHECK(EVP_CipherUpdate(context.get(), to, &done, from, static_cast<int>(kSectorBytes)) == 1 &&
                done == kSectorBytes);
  }
  // The thread's context must not keep the key of a disk that is gone.
  EVP_CIPHER_CTX_reset(context.get());
}

}  // namespace

SectorCipher::SectorCipher(os::Random& random) : key_(64) {
  random.fill(key_.writable());
}

void SectorCipher::encrypt(std::uint64_t sector, ByteView in, std::span<std::byte> out) const {
  run(key_, 1, sector, in, out);
}
void SectorCipher::decrypt(std::uint64_t sector, ByteView in, std::span<std::byte> out) const {
  run(key_, 0, sector, in, out);
}

}  // namespace space::imager::files
